#include "adjoin/nn/attention.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/sequence/attention.hpp"

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

at::Tensor ParallelSelfAttentionImpl::forward(const at::Tensor& x, const StepContext& context) {
  require(context.rows != nullptr,
          "ParallelSelfAttention: expected a context that says which sample and token each row is, got none");
  const int64_t heads = heads_.size(rank_), size = options_.hidden / options_.heads;
  if (heads == 0) return out_(qkv_(x));  // of no features, and still part of the graph
  const std::vector<at::Tensor> qkv = qkv_(x).view({x.size(0), 3, heads, size}).unbind(1);
  const at::Tensor y = attention(qkv[0], qkv[1], qkv[2], *context.rows, Communicator(),
                                 {.scale = options_.scale,
                                  .dropout = options_.dropout,
                                  .name = options_.name,
                                  .first_head = heads_.offset(rank_),
                                  .context = context});
  return out_(y.flatten(1, 2));
}

}  // namespace adjoin::nn
