#include "adjoin/nn/sequence/composed_tile.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>

#include <limits>

namespace adjoin::nn {

namespace {

/// [n, heads of queries, *] -> [heads of keys, heads of queries that share one, n, *], and back
at::Tensor by_key_head(const at::Tensor& x, int64_t key_heads) {
  const at::Tensor heads = x.transpose(0, 1);
  return heads.unflatten(0, {key_heads, heads.size(0) / key_heads});
}
at::Tensor by_row(const at::Tensor& x) {
  return x.flatten(0, 1).transpose(0, 1);
}

/// The tensors of a tile in the type of its sums. Shape of q: [key heads, sharing, queries, size]; of k and v: [key heads, 1, keys, size]
struct Operands {
  Operands(const TileInputs& x)  // NOLINT
      : heads(x.k.size(1)), q(of_queries(x.q)), k(of_keys(x.k)), v(of_keys(x.v)) {}

  at::Tensor of_queries(const at::Tensor& x) const { return by_key_head(x.to(partial_type(x)), heads); }
  static at::Tensor of_keys(const at::Tensor& x) { return x.to(partial_type(x)).transpose(0, 1).unsqueeze(1); }

  int64_t heads;
  at::Tensor q, k, v;
};

at::Tensor scores_of(const Operands& x, const Tile& tile, const AttentionOptions& options) {
  const at::Tensor scores = at::matmul(x.q, x.k.transpose(-1, -2)).mul_(*options.scale);
  const at::Tensor hidden = hidden_in(tile, options);
  return hidden.defined() ? scores.masked_fill_(hidden.to(scores.device()), -std::numeric_limits<double>::infinity())
                          : scores;
}

/// x times the mask of dropout. Shape: as the scores
at::Tensor dropped(const at::Tensor& x, const Tile& tile, const AttentionOptions& options) {
  return options.drops() ? drop_in(tile, x.flatten(0, 1), options).view(x.sizes()) : x;
}

}  // namespace

PartialAttention attend_composed(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  const Operands operands(x);
  const at::Tensor scores = scores_of(operands, tile, options), log_sum = scores.logsumexp(-1, /*keepdim=*/true);
  const at::Tensor shift = log_sum.masked_fill(log_sum == -std::numeric_limits<double>::infinity(), 0);
  const at::Tensor out = at::matmul(dropped((scores - shift).exp_(), tile, options), operands.v);
  return {by_row(out), by_row(log_sum.squeeze(-1))};
}

TileInputs attend_composed_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                    const AttentionOptions& options) {
  const Operands operands(x);
  const at::Tensor log_sum = by_key_head(y.log_sum, operands.heads).unsqueeze(-1);
  const at::Tensor p = (scores_of(operands, tile, options) - log_sum).exp_();
  const at::Tensor of_out = operands.of_queries(y.gradient);
  const at::Tensor product = (of_out * operands.of_queries(y.out)).sum(-1, /*keepdim=*/true);
  const at::Tensor of_p = dropped(at::matmul(of_out, operands.v.transpose(-1, -2)), tile, options);
  const at::Tensor of_scores = (p * (of_p - product)).mul_(*options.scale);
  const auto of_shared = [](const at::Tensor& of_each) { return of_each.sum(1).transpose(0, 1); };
  return {by_row(at::matmul(of_scores, operands.k)), of_shared(at::matmul(of_scores.transpose(-1, -2), operands.q)),
          of_shared(at::matmul(dropped(p, tile, options).transpose(-1, -2), of_out))};
}

}  // namespace adjoin::nn
