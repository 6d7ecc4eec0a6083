#include "adjoin/models/trunk.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>
#include <cmath>
#include <optional>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/positions.hpp"

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

int64_t features_of_head(const nn::SelfAttentionOptions& options) {
  return options.head_size == 0 ? options.hidden / options.heads : options.head_size;
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
  const int64_t size = features_of_head(a);
  const int64_t attention = 2 * a.hidden * size * (a.heads + (a.key_heads == 0 ? a.heads : a.key_heads));
  const int64_t made = f.activation == nn::Activation::swiglu ? 2 * f.hidden_features : f.hidden_features;
  const int64_t one = f.in_features * made + f.hidden_features * f.out_features;
  const ExpertOptions& e = options.experts;
  const int64_t feed_forward = e.count == 1 ? one : e.top_k * one + e.count * f.in_features;
  return 2.0 * static_cast<double>(attention + feed_forward);
}

double attention_cost_of(const TransformerBlockOptions& options) {
  const nn::SelfAttentionOptions& a = options.attention;
  return (a.causal ? 2.0 : 4.0) * static_cast<double>(a.heads * features_of_head(a));
}

namespace {

ModuleRecipe embedding_part(const std::string& name, nn::ParallelEmbeddingOptions options) {
  return {name, [options](const Grid& stage, const at::TensorOptions& tensor) mutable {
            options.tensor = tensor;
            return nn::ParallelEmbedding(options, stage, "tp").ptr();
          }};
}

void check_ranks(const TransformerOptions& options, const std::string& model, const Grid& stage) {
  const int ranks = stage.shape().axis_size("tp");
  const int64_t heads = options.heads_of_keys();
  require(ranks <= heads, [&] {
    return model + ": expected at most as many tensor-parallel ranks as heads of keys, got " + std::to_string(ranks) +
           " ranks and " + std::to_string(heads) + " heads of keys";
  });
}

void check_lengths(const TransformerOptions& options, const std::string& model, const LocalTokenRows& rows) {
  if (options.context == 0) return;
  for (const int64_t length : rows.all().lengths())
    require(length <= options.context, [&] {
      return model + ": expected samples of at most " + std::to_string(options.context) +
             " tokens, the context, got one of " + std::to_string(length);
    });
}

TransformerBlockOptions block_options(const TransformerOptions& options) {
  using AttentionBias = TransformerOptions::AttentionBias;
  using ScoreScale = TransformerOptions::ScoreScale;
  return {
      .attention = {.hidden = options.hidden,
                    .heads = options.heads,
                    .key_heads = options.key_heads,
                    .head_size = options.head_size,
                    .qkv_bias = options.attention_bias != AttentionBias::none,
                    .out_bias = options.attention_bias == AttentionBias::all,
                    .scale = options.score_scale == ScoreScale::hidden
                                 ? std::optional(1 / std::sqrt(static_cast<double>(options.hidden)))
                                 : std::nullopt,
                    .causal = options.causal,
                    .rotary = options.positions == TransformerOptions::Positions::rotary ? std::optional(options.rotary)
                                                                                         : std::nullopt,
                    .dropout = options.attention_dropout},
      .feed_forward = {.in_features = options.hidden,
                       .hidden_features = options.inner_features(),
                       .out_features = options.hidden,
                       .bias = options.feed_forward_bias,
                       .activation = options.activation},
      .norm = {.kind = options.norm, .epsilon = options.norm_epsilon},
      .norm_place = options.norm_place,
      .experts = options.experts,
      .dropout = options.dropout,
      .rows = options.rows};
}

/// The vectors that are added up: of words and, if there are any, of positions and of kinds of text.
std::vector<ModuleRecipe> embedding_parts(const TransformerOptions& options) {
  const auto features_part = [&](const char* name, int64_t vectors) {
    return embedding_part(name, {.words = vectors,
                                 .features = options.hidden,
                                 .split_rows = options.rows.split,
                                 .deviation = options.embedding_deviation});
  };
  constexpr int64_t kManyWords = 4096;  // a step reads fewer of them than there are
  std::vector<ModuleRecipe> parts{words_part(options)};
  parts[0].is_table = options.words >= kManyWords;
  if (options.positions == TransformerOptions::Positions::learned)
    parts.push_back(features_part("positions", options.context));
  if (options.token_types > 0) parts.push_back(features_part("token_types", options.token_types));
  if (options.embedding_norm) parts.push_back(norm_part(options, "embedding_norm"));
  return parts;
}

}  // namespace

int64_t TransformerOptions::inner_features() const {
  if (inner != 0) return inner;
  return activation == nn::Activation::swiglu ? (8 * hidden + 2) / 3 : 4 * hidden;
}

ModuleRecipe words_part(const TransformerOptions& options, const std::string& name) {
  return embedding_part(name, {.words = options.words,
                               .features = options.hidden,
                               .cut = options.embedding_cut,
                               .split_rows = options.rows.split,
                               .deviation = options.embedding_deviation});
}

ModuleRecipe norm_part(const TransformerOptions& options, const std::string& name) {
  nn::NormOptions norm{.features = options.hidden,
                       .kind = options.norm,
                       .epsilon = options.norm_epsilon,
                       .split_rows = options.rows.split};
  return {name, [norm](const Grid& stage, const at::TensorOptions& tensor) mutable {
            norm.tensor = tensor;
            return nn::ReplicatedNorm(norm, stage, "tp").ptr();
          }};
}

std::vector<Segment> trunk(const TransformerOptions& options, const std::string& model) {
  require(options.words >= 1 && options.layers >= 1, [&] {
    return model + ": expected at least 1 word and layer, got " + std::to_string(options.words) + " and " +
           std::to_string(options.layers);
  });
  const bool learns_positions = options.positions == TransformerOptions::Positions::learned;
  require(options.context >= (learns_positions ? 1 : 0),
          [&] { return model + ": expected at least 1 token of context, got " + std::to_string(options.context); });
  const TokenRowOptions& rows = options.rows;
  const auto output_shape = [rows, hidden = options.hidden](const Grid& stage, const LocalTokenRows& here) {
    return std::vector<int64_t>{rows.between_layers(here, stage.axis("tp")).size(), hidden};
  };
  Segment embedding{.name = "embedding", .kind = "embedding", .parts = embedding_parts(options)};
  embedding.forward = [options, model, learns_positions](const Modules& modules, const at::Tensor& ids,
                                                         const ForwardPass& pass, nn::KeyValueCache*) {
    check_lengths(options, model, pass.rows);
    size_t part = 0;
    at::Tensor x = modules.as<nn::ParallelEmbeddingImpl>(part++).forward(ids);
    if (learns_positions)
      x = x + modules.as<nn::ParallelEmbeddingImpl>(part++).forward(
                  nn::token_numbers(pass.rows, ids.size(0)).to(ids.device()));
    if (options.token_types > 0) x = x + modules.as<nn::ParallelEmbeddingImpl>(part++).forward(at::zeros_like(ids));
    if (options.embedding_norm) x = modules.as<nn::ReplicatedNormImpl>(part).forward(x);
    return nn::dropout(x, options.embedding_dropout, {"embedding.output", 0},
                       {pass.step, options.rows.between_layers(pass.rows, modules.stage.axis("tp"))});
  };
  embedding.output_shape = output_shape;

  std::vector<Segment> segments{std::move(embedding)};
  for (int64_t i = 0; i < options.layers; ++i) {
    TransformerBlockOptions of_block = block_options(options);
    of_block.name = "block" + std::to_string(i);
    const bool has_experts = of_block.experts.in_block(i);
    if (!has_experts) of_block.experts = {};
    Segment block{.name = of_block.name,
                  .kind = has_experts ? "block of experts" : "block",
                  .cost = cost_of(of_block),
                  .attention_cost = attention_cost_of(of_block)};
    if (has_experts) block.experts = of_block.experts.count;
    block.parts = {{block.name, [options, model, of_block](const Grid& stage, const at::TensorOptions& tensor) mutable {
                      check_ranks(options, model, stage);
                      of_block.tensor = tensor;
                      return TransformerBlock(of_block, stage, "tp").ptr();
                    }}};
    block.forward = [](const Modules& modules, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache* cache) {
      return modules.as<TransformerBlockImpl>(0).forward(x, pass, cache);
    };
    block.output_shape = output_shape;
    segments.push_back(std::move(block));
  }
  return segments;
}

}  // namespace adjoin::models
