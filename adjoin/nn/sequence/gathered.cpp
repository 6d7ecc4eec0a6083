#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <vector>

#include "adjoin/linalg/matmul.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/nn/sequence/methods.hpp"
#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {
namespace {

/// A tile of this worker's rows of all scores [*, rows, all rows].
at::Tensor tile_of(const at::Tensor& scores, const Tile& tile, const Rows& rows) {
  return scores.narrow(-2, tile.query_row, tile.queries.size())
      .narrow(-1, rows.offset(tile.sample) + tile.keys.begin, tile.keys.size());
}

/// Bool [rows, all rows]: other samples' keys, later ones, and what the mask hides.
at::Tensor hidden_of(const std::vector<Tile>& tiles, const Rows& rows, int rank, const AttentionOptions& options) {
  const at::Tensor hidden = at::full({rows.size(rank), rows.size()}, true, at::kBool);
  for (const Tile& tile : tiles) {
    const at::Tensor of_tile = hidden_in(tile, options);
    if (of_tile.defined())
      tile_of(hidden, tile, rows).copy_(of_tile);
    else
      tile_of(hidden, tile, rows).fill_(false);
  }
  return hidden;
}

}  // namespace

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                              const Communicator& group, const AttentionOptions& options) {
  const Split split = rows.split();
  std::vector<Tile> tiles;
  for (int worker = 0; worker < group.size(); ++worker)
    for (const Tile& tile : tiles_of(rows, group.rank(), worker, options)) tiles.push_back(tile);

  const int64_t h = k.size(1), each = q.size(1) / h;
  const at::Tensor by_heads = q.unflatten(1, {h, each}).permute({1, 2, 0, 3});  // [h, heads / h, rows, size]
  const auto shared = [&](const at::Tensor& x) {
    return x.transpose(0, 1).unsqueeze(1).expand({h, each, x.size(0), x.size(2)});
  };
  const at::Tensor scores = linalg::matmul_nt(by_heads * *options.scale, shared(k), group, split);
  const at::Tensor hidden = hidden_of(tiles, rows, group.rank(), options);
  // The softmax of a row that is hidden whole would be NaN, in its gradient too: its scores stay, its output goes.
  const at::Tensor hidden_rows = hidden.all(-1, /*keepdim=*/true);
  at::Tensor p = at::softmax(
      scores.masked_fill(hidden.logical_and(hidden_rows.logical_not()), -std::numeric_limits<double>::infinity()), -1);
  if (options.drops()) {
    const auto drop = [=](const at::Tensor& x) {
      at::Tensor y = at::zeros(x.sizes(), x.options().requires_grad(false));
      for (const Tile& tile : tiles)
        tile_of(y, tile, rows)
            .copy_(drop_in(tile, tile_of(x, tile, rows).flatten(0, 1), options)
                       .view({h, each, tile.queries.size(), tile.keys.size()}));
      return y;
    };
    p = apply({.forward = drop, .adjoint = drop}, p);
  }
  const at::Tensor y = linalg::matmul_nn(p, shared(v), group, split).masked_fill(hidden_rows, 0);
  return y.permute({2, 0, 1, 3}).flatten(1, 2);
}

}  // namespace adjoin::nn
