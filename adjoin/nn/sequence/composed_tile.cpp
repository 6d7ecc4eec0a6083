#include "adjoin/nn/sequence/composed_tile.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>

#include <limits>

namespace adjoin::nn {

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

}  // namespace

at::Tensor ComposedAttention::scores() const {
  const at::Tensor scores = at::matmul(q, k.transpose(-1, -2)).mul_(scale);
  return hidden.defined() ? scores.masked_fill_(hidden, kHidden) : scores;
}

at::Tensor ComposedAttention::dropped(const at::Tensor& probabilities) const {
  return drop ? drop(probabilities) : probabilities;
}

std::tuple<at::Tensor, at::Tensor> ComposedAttention::forward() const {
  const at::Tensor all = scores(), log_sum = all.logsumexp(-1, /*keepdim=*/true);
  const at::Tensor shift = log_sum.masked_fill(log_sum == kHidden, 0);
  return {at::matmul(dropped((all - shift).exp_()), v), log_sum.squeeze(-1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> ComposedAttention::backward(const at::Tensor& of_out,
                                                                           const at::Tensor& out,
                                                                           const at::Tensor& log_sum) const {
  const at::Tensor p = (scores() - log_sum.unsqueeze(-1)).exp_();
  const at::Tensor product = (of_out * out).sum(-1, /*keepdim=*/true);
  const at::Tensor of_p = dropped(at::matmul(of_out, v.transpose(-1, -2)));
  const at::Tensor of_scores = (p * (of_p - product)).mul_(scale);
  return {at::matmul(of_scores, k), at::matmul(of_scores.transpose(-1, -2), q),
          at::matmul(dropped(p).transpose(-1, -2), of_out)};
}

namespace {

/// [n, heads of queries, *] -> [heads of keys, heads of queries that share one, n, *], and back
at::Tensor by_key_head(const at::Tensor& x, int64_t key_heads) {
  const at::Tensor heads = x.transpose(0, 1);
  return heads.unflatten(0, {key_heads, heads.size(0) / key_heads});
}
at::Tensor by_row(const at::Tensor& x) {
  return x.flatten(0, 1).transpose(0, 1);
}

/// In the type of a tile's sums.
at::Tensor of_queries(const at::Tensor& x, int64_t key_heads) {
  return by_key_head(x.to(partial_type(x)), key_heads);
}
at::Tensor of_keys(const at::Tensor& x) {
  return x.to(partial_type(x)).transpose(0, 1).unsqueeze(1);
}

ComposedAttention composed(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  ComposedAttention a{of_queries(x.q, x.k.size(1)), of_keys(x.k), of_keys(x.v), {}, *options.scale};
  const at::Tensor hidden = hidden_in(tile, options);
  if (hidden.defined()) a.hidden = hidden.to(a.q.device());
  if (options.drops())
    a.drop = [&tile, &options](const at::Tensor& p) { return drop_in(tile, p.flatten(0, 1), options).view(p.sizes()); };
  return a;
}

}  // namespace

PartialAttention attend_composed(const TileInputs& x, const Tile& tile, const AttentionOptions& options) {
  const auto [out, log_sum] = composed(x, tile, options).forward();
  return {by_row(out), by_row(log_sum)};
}

TileInputs attend_composed_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                    const AttentionOptions& options) {
  const int64_t heads = x.k.size(1);
  const auto [q, k, v] =
      composed(x, tile, options)
          .backward(of_queries(y.gradient, heads), of_queries(y.out, heads), by_key_head(y.log_sum, heads));
  const auto of_shared = [](const at::Tensor& of_each) { return of_each.sum(1).transpose(0, 1); };
  return {by_row(q), of_shared(k), of_shared(v)};
}

}  // namespace adjoin::nn
