#include "adjoin/models/transformer_block.hpp"

#include <ATen/TensorOperators.h>

#include <utility>

namespace adjoin::models {

TransformerBlockImpl::TransformerBlockImpl(TransformerBlockOptions options, const Grid& grid, const std::string& axis)
    : hidden_(options.attention.hidden),
      heads_(options.attention.heads),
      is_rotary_(options.attention.rotary_base > 0),
      ranks_(grid.shape().axis_size(axis)),
      dropout_(options.dropout),
      after_attention_{options.name + ".attention.output", 0},
      after_feed_forward_{options.name + ".feed_forward.output", 0} {
  const int64_t hidden = options.attention.hidden;
  options.attention.name = options.name + ".attention";
  options.feed_forward.name = options.name + ".feed_forward";
  options.attention.tensor = options.feed_forward.tensor = options.tensor;
  norm1_ = register_module("norm1", nn::ReplicatedLayerNorm(hidden, grid, axis, options.tensor));
  attention_ = register_module("attention", nn::ParallelSelfAttention(options.attention, grid, axis));
  norm2_ = register_module("norm2", nn::ReplicatedLayerNorm(hidden, grid, axis, options.tensor));
  feed_forward_ = register_module("feed_forward", nn::ColRow(options.feed_forward, grid, axis));
}

at::Tensor TransformerBlockImpl::forward(at::Tensor x, const StepContext& context, nn::KeyValueCache* cache) {
  x = nn::add_dropped(x, attention_(norm1_(x), context, cache), dropout_, after_attention_, context);
  return nn::add_dropped(x, feed_forward_(norm2_(x), context), dropout_, after_feed_forward_, context);
}

Needs TransformerBlockImpl::needs(const Load& load) const {
  const auto weights = named_parameters();
  const auto size = [&](const char* name, int64_t dim) { return weights[name].size(dim); };
  const int64_t queries = size("attention.out.weight", 1), qkv = size("attention.qkv.weight", 0);
  const int64_t made = size("feed_forward.column.weight", 0), inner = size("feed_forward.row.weight", 1);
  const int64_t turned = is_rotary_ ? queries + (qkv - queries) / 2 : 0;  // copies of queries and keys
  const int64_t between = made == inner ? inner : 2 * inner;              // SwiGLU keeps silu(a) beside the product
  int64_t casts = 0;                                                      // of the weights, which wait for backward too
  if (load.product_bytes != load.bytes)
    for (const auto& weight : weights)
      if (weight.value().dim() == 2) casts += weight.value().numel();
  Needs needs;
  // The inputs of both norms, their means and deviations; what matrix products and attention read; its log-sums.
  const int64_t norms = 2 * hidden_ + 4, log_sums = queries * heads_ / hidden_;
  const int64_t products = 2 * hidden_ + qkv + turned + queries + made + between;
  needs.kept =
      load.rows * ((norms + log_sums) * load.bytes + products * load.product_bytes) + casts * load.product_bytes;
  // The gradients of both ends of the activation, and those of x and of the norm's output.
  needs.temporary = load.rows * ((made + inner) * load.product_bytes + 2 * hidden_ * load.bytes);
  if (ranks_ > 1) needs.calls.assign(4, {Collective::all_reduce, ranks_, load.rows * hidden_ * load.product_bytes});
  return needs;
}

double cost_of(const TransformerBlockOptions& options) {
  const nn::SelfAttentionOptions& a = options.attention;
  const nn::ColRowOptions& f = options.feed_forward;
  const int64_t key_features = (a.key_heads == 0 ? a.heads : a.key_heads) * (a.hidden / a.heads);
  const int64_t attention = a.hidden * (2 * a.hidden + 2 * key_features);
  const int64_t made = f.activation == nn::Activation::swiglu ? 2 * f.hidden_features : f.hidden_features;
  const int64_t feed_forward = f.in_features * made + f.hidden_features * f.out_features;
  return 2.0 * static_cast<double>(attention + feed_forward);
}

}  // namespace adjoin::models
