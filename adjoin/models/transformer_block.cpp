#include "adjoin/models/transformer_block.hpp"

#include <ATen/TensorOperators.h>

#include <utility>

namespace adjoin::models {

TransformerBlockImpl::TransformerBlockImpl(TransformerBlockOptions options, const Grid& grid, const std::string& axis)
    : dropout_(options.dropout),
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
