#include "adjoin/models/transformer_block.hpp"

#include <ATen/TensorOperators.h>

#include <utility>

namespace adjoin::models {
namespace {

nn::MixtureOfExpertsOptions experts_options(const TransformerBlockOptions& options) {
  return {.features = options.feed_forward.in_features,
          .hidden_features = options.feed_forward.hidden_features,
          .activation = options.feed_forward.activation,
          .experts = options.experts.count,
          .top_k = options.experts.top_k,
          .normalises_gates = options.experts.normalises_gates,
          .balance_loss = options.experts.balance_loss,
          .z_loss = options.experts.z_loss,
          .experts_axis = options.experts.axis,
          .samples_axis = options.rows.axis,
          .split_rows = options.rows.split,
          .deviation = options.feed_forward.deviation,
          .tensor = options.tensor};
}

}  // namespace

TransformerBlockImpl::TransformerBlockImpl(TransformerBlockOptions options, const Grid& grid, const std::string& axis)
    : rows_(options.rows),
      group_(grid.axis(axis)),
      norms_after_sum_(options.norm_place == TransformerOptions::NormPlace::after),
      dropout_(options.dropout),
      after_attention_{options.name + ".attention.output", 0},
      after_feed_forward_{options.name + ".feed_forward.output", 0} {
  options.norm.features = options.attention.hidden;
  options.attention.name = options.name + ".attention";
  options.feed_forward.name = options.name + ".feed_forward";
  options.attention.tensor = options.feed_forward.tensor = options.norm.tensor = options.tensor;
  options.attention.split_rows = options.feed_forward.split_rows = options.norm.split_rows = rows_.split;
  options.attention.rows_axis = rows_.axis;
  options.attention.method = rows_.method;
  options.attention.recompute = rows_.recompute_attention;
  norm1_ = register_module("norm1", nn::ReplicatedNorm(options.norm, grid, axis));
  attention_ = register_module("attention", nn::ParallelSelfAttention(options.attention, grid, axis));
  norm2_ = register_module("norm2", nn::ReplicatedNorm(options.norm, grid, axis));
  if (options.experts.count == 1)
    feed_forward_ = register_module("feed_forward", nn::ColRow(options.feed_forward, grid, axis));
  else
    experts_ = register_module("feed_forward", nn::MixtureOfExperts(experts_options(options), grid, axis));
}

at::Tensor TransformerBlockImpl::forward(at::Tensor x, const ForwardPass& pass, nn::KeyValueCache* cache) {
  const ForwardPass between{pass.step, rows_.between_layers(pass.rows, group_)};
  const auto feed_forward = [&](const at::Tensor& in) {
    return experts_ ? experts_(in, pass) : feed_forward_(in, pass);
  };
  if (norms_after_sum_) {
    x = norm1_(nn::add_dropped(x, attention_(x, pass, cache), dropout_, after_attention_, between));
    return norm2_(nn::add_dropped(x, feed_forward(x), dropout_, after_feed_forward_, between));
  }
  x = nn::add_dropped(x, attention_(norm1_(x), pass, cache), dropout_, after_attention_, between);
  return nn::add_dropped(x, feed_forward(norm2_(x)), dropout_, after_feed_forward_, between);
}

double cost_of(const TransformerBlockOptions& options) {
  const nn::SelfAttentionOptions& a = options.attention;
  const nn::ColRowOptions& f = options.feed_forward;
  const int64_t size = a.head_size == 0 ? a.hidden / a.heads : a.head_size;
  const int64_t attention = 2 * a.hidden * size * (a.heads + (a.key_heads == 0 ? a.heads : a.key_heads));
  const int64_t made = f.activation == nn::Activation::swiglu ? 2 * f.hidden_features : f.hidden_features;
  const int64_t one = f.in_features * made + f.hidden_features * f.out_features;
  const ExpertOptions& e = options.experts;
  const int64_t feed_forward = e.count == 1 ? one : e.top_k * one + e.count * f.in_features;
  return 2.0 * static_cast<double>(attention + feed_forward);
}

double attention_cost_of(const TransformerBlockOptions& options) {
  const nn::SelfAttentionOptions& a = options.attention;
  const int64_t size = a.head_size == 0 ? a.hidden / a.heads : a.head_size;
  return (a.causal ? 2.0 : 4.0) * static_cast<double>(a.heads * size);
}

}  // namespace adjoin::models
