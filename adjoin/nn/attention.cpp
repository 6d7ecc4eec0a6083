#include "adjoin/nn/attention.hpp"

#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/dropout.hpp"

namespace adjoin::nn {
namespace {

SelfAttentionOptions checked(SelfAttentionOptions options) {
  require(options.heads >= 1 && options.hidden >= 1 && options.hidden % options.heads == 0, [&] {
    return "ParallelSelfAttention: expected a hidden size that the heads divide, got hidden " +
           std::to_string(options.hidden) + " and " + std::to_string(options.heads) + " heads";
  });
  if (!options.scale) options.scale = 1 / std::sqrt(static_cast<double>(options.hidden / options.heads));
  return options;
}

/// Rank r's queries, keys and values, one behind another, of a weight that stacks all queries, all keys and all values.
Split qkv_split(const Split& features) {
  std::vector<std::vector<Range>> parts;
  for (int part = 0; part < features.parts(); ++part) {
    const Range range = features.ranges(part)[0];
    parts.emplace_back();
    for (int64_t i = 0; i < 3; ++i)
      parts.back().push_back({i * features.size() + range.begin, i * features.size() + range.end});
  }
  return Split::of_ranges(std::move(parts), 3 * features.size(), 0);
}

}  // namespace

ParallelSelfAttentionImpl::ParallelSelfAttentionImpl(SelfAttentionOptions options, const Grid& grid,
                                                     const std::string& axis)
    : options_(checked(std::move(options))),
      heads_(Split::balanced(options_.heads, grid.shape().axis_size(axis), 0)),
      rank_(grid.coordinate(axis)) {
  const int64_t hidden = options_.hidden;
  const Split features = Split::balanced(hidden, heads_.parts(), 0, hidden / options_.heads);
  qkv_ = register_module("qkv", ColumnParallelLinear(ParallelLinearOptions{.in_features = hidden,
                                                                           .out_features = 3 * hidden,
                                                                           .bias = options_.bias,
                                                                           .deviation = options_.deviation,
                                                                           .split = qkv_split(features),
                                                                           .tensor = options_.tensor},
                                                     grid, axis));
  out_ = register_module("out", RowParallelLinear(ParallelLinearOptions{.in_features = hidden,
                                                                        .out_features = hidden,
                                                                        .bias = options_.bias,
                                                                        .deviation = options_.deviation,
                                                                        .split = features,
                                                                        .tensor = options_.tensor},
                                                  grid, axis));
}

at::Tensor ParallelSelfAttentionImpl::forward(const at::Tensor& x, const at::Tensor& keep, const StepContext& context) {
  const int64_t samples = x.size(0), tokens = x.size(1), heads = heads_.size(rank_);
  // [samples, tokens, 3, heads, size] -> three of [samples, heads, tokens, size]
  const at::Tensor qkv = qkv_(x).view({samples, tokens, 3, heads, options_.hidden / options_.heads});
  const auto pick = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
  const at::Tensor q = pick(0), k = pick(1), v = pick(2);
  const at::Tensor mask = keep.defined() ? keep.view({samples, 1, 1, tokens}) : keep;

  at::Tensor y;
  if (v.numel() == 0) {
    y = v;  // no sample or no head here; still part of the graph
  } else if (context.training && options_.dropout > 0) {
    at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * *options_.scale;
    if (mask.defined()) scores = scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
    const at::Tensor probabilities =
        attention_dropout(at::softmax(scores, -1), options_.dropout, options_.name, heads_.offset(rank_), context);
    y = at::matmul(probabilities.to(v.scalar_type()), v);
  } else {
    std::optional<at::Tensor> attention_mask;
    if (mask.defined()) attention_mask = mask;
    y = at::scaled_dot_product_attention(q, k, v, attention_mask, /*dropout_p=*/0.0, /*is_causal=*/false,
                                         options_.scale);
  }
  return out_(y.transpose(1, 2).reshape({samples, tokens, v.size(1) * v.size(3)}));
}

}  // namespace adjoin::nn
