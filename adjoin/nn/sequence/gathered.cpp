#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <map>
#include <vector>

#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/sequence/methods.hpp"
#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {
namespace {

/// Consecutive queries of a sample on this worker, and what they attend to.
struct Block {
  int64_t sample = 0, query_row = 0, queries = 0;
  std::vector<Tile> tiles;
};

std::vector<Block> blocks_of(const TokenRows& rows, const Communicator& group, const AttentionOptions& options) {
  std::map<int64_t, Block> by_row;
  for (int worker = 0; worker < group.size(); ++worker)
    for (const Tile& tile : tiles_of(rows, group.rank(), worker, options)) {
      Block& block = by_row[tile.query_row];
      block.sample = tile.sample;
      block.query_row = tile.query_row;
      block.queries = tile.queries.size();
      block.tiles.push_back(tile);
    }
  std::vector<Block> blocks;
  for (auto& [row, block] : by_row) blocks.push_back(std::move(block));
  return blocks;
}

/// A tile of a block of scores [*, queries, keys of the sample].
at::Tensor tile_of(const at::Tensor& scores, const Tile& tile) {
  return scores.narrow(-1, tile.keys.begin, tile.keys.size());
}

/// Bool [queries, keys of the sample]: true for later keys, and for what the mask hides.
at::Tensor hidden_of(const Block& block, int64_t keys, const AttentionOptions& options) {
  const at::Tensor hidden = at::full({block.queries, keys}, true, at::kBool);
  for (const Tile& tile : block.tiles) {
    const at::Tensor of_tile = hidden_in(tile, options);
    if (of_tile.defined())
      tile_of(hidden, tile).copy_(of_tile);
    else
      tile_of(hidden, tile).fill_(false);
  }
  return hidden;
}

/// The rows of one block: q [h, heads / h, queries, size], k and v [h, 1, keys, size].
at::Tensor attend_block(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Block& block,
                        const AttentionOptions& options) {
  const at::Tensor scores = at::matmul(q * *options.scale, k.transpose(-1, -2));
  const at::Tensor hidden = hidden_of(block, k.size(2), options).to(q.device());
  // If all scores of a row are hidden, its softmax and its gradient would be NaN: so its scores are kept, and its output is set
  // to 0.
  const at::Tensor hidden_rows = hidden.all(-1, /*keepdim=*/true);
  at::Tensor p = at::softmax(
      scores.masked_fill(hidden.logical_and(hidden_rows.logical_not()), -std::numeric_limits<double>::infinity()), -1);
  if (options.drops()) {
    const auto drop = [block, options, h = q.size(0), each = q.size(1)](const at::Tensor& x) {
      at::Tensor y = at::zeros(x.sizes(), x.options().requires_grad(false));
      for (const Tile& tile : block.tiles)
        tile_of(y, tile).copy_(drop_in(tile, tile_of(x, tile).flatten(0, 1), options)
                                   .view({h, each, tile.queries.size(), tile.keys.size()}));
      return y;
    };
    p = apply({.forward = drop, .adjoint = drop}, p);
  }
  return at::matmul(p, v).masked_fill(hidden_rows, 0);
}

}  // namespace

/// Works sample by sample, so that a number that is not finite affects only its own sample.
at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                              const Communicator& group, const AttentionOptions& options) {
  const int64_t h = k.size(1), each = q.size(1) / h;
  const at::Tensor all_k = all_gather(k, group, rows.split()), all_v = all_gather(v, group, rows.split());
  const auto of_sample = [&](const at::Tensor& x, int64_t sample) {
    const int64_t keys = rows.lengths()[static_cast<size_t>(sample)];
    return x.narrow(0, rows.offset(sample), keys).transpose(0, 1).unsqueeze(1);
  };
  const at::Tensor by_heads = q.unflatten(1, {h, each}).permute({1, 2, 0, 3});  // [h, heads / h, rows, size]
  std::vector<at::Tensor> made;
  int64_t row = 0;
  for (const Block& block : blocks_of(rows, group, options)) {
    if (block.query_row > row) made.push_back(by_heads.narrow(2, row, block.query_row - row) * 0);  // all hidden
    made.push_back(attend_block(by_heads.narrow(2, block.query_row, block.queries), of_sample(all_k, block.sample),
                                of_sample(all_v, block.sample), block, options));
    row = block.query_row + block.queries;
  }
  if (row < q.size(0) || made.empty()) made.push_back(by_heads.narrow(2, row, q.size(0) - row) * 0);
  at::Tensor y = at::cat(made, 2);
  for (int worker = 0; worker < group.size(); ++worker)
    if (rows.size(worker) == 0) {  // else this rank would not take part in the adjoint of the gathering
      y = linked(y, {all_k, all_v});
      break;
    }
  return y.permute({2, 0, 1, 3}).flatten(1, 2);
}

}  // namespace adjoin::nn
