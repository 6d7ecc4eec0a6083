#include "adjoin/task/transformer_options.hpp"

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::train {
namespace {

using models::TransformerOptions;

nn::RotaryOptions rotary_options(const Configuration& c) {
  using Scaling = nn::RotaryOptions::Scaling;
  return {.base = c.rotary_base,
          .scaling = c.rotary_scaling == "linear"   ? Scaling::linear
                     : c.rotary_scaling == "llama3" ? Scaling::llama3
                                                    : Scaling::none,
          .factor = c.rotary_factor,
          .low_turns = c.rotary_low_turns,
          .high_turns = c.rotary_high_turns,
          .trained_tokens = static_cast<double>(c.rotary_trained)};
}

nn::Activation activation_of(const Configuration& c) {
  if (c.activation == "swiglu") return nn::Activation::swiglu;
  return c.activation == "gelu_tanh" ? nn::Activation::gelu_tanh : nn::Activation::gelu;
}

}  // namespace

int64_t context_of(const Configuration& c) {
  return c.context == 0 ? c.sequence : c.context;
}

TransformerOptions transformer_options(const Configuration& c, int64_t pieces) {
  require(c.words == 0 || c.words >= pieces, [&] {
    if (!c.from.empty())
      return c.from + ": the tokenizer has " + std::to_string(pieces) + " pieces, and the model's embedding only " +
             std::to_string(c.words) + " rows; they do not belong together";
    return "--words " + std::to_string(c.words) + ": expected at least " + std::to_string(pieces) +
           ", the number of pieces in the vocabulary";
  });
  using Positions = TransformerOptions::Positions;
  const bool is_decoder = c.model == "decoder";
  TransformerOptions options{.words = c.words == 0 ? pieces : c.words,
                             .layers = c.layers,
                             .hidden = c.hidden,
                             .heads = c.heads,
                             .context = is_decoder || c.positions == "learned" ? context_of(c) : 0,
                             .key_heads = c.key_heads,
                             .head_size = c.head_size,
                             .inner = c.inner,
                             .positions = c.positions == "learned"  ? Positions::learned
                                          : c.positions == "rotary" ? Positions::rotary
                                                                    : Positions::none,
                             .rotary = rotary_options(c),
                             .token_types = c.token_types,
                             .embedding_norm = c.embedding_norm,
                             .norm = c.norm == "rms" ? nn::NormOptions::Kind::rms : nn::NormOptions::Kind::layer,
                             .norm_epsilon = c.norm_epsilon,
                             .norm_after_sum = c.norm_place == "after",
                             .final_norm = c.final_norm,
                             .qkv_bias = c.attention_bias != "none",
                             .out_bias = c.attention_bias == "all",
                             .feed_forward_bias = c.feed_forward_bias,
                             .activation = activation_of(c),
                             .dropout = c.dropout,
                             .embedding_dropout = c.embedding_dropout >= 0         ? c.embedding_dropout
                                                  : is_decoder || c.embedding_norm ? c.dropout
                                                                                   : 0,
                             .attention_dropout = c.attention_dropout,
                             .experts = expert_options(c)};
  if (c.score_scale == "hidden") options.scale = 1 / std::sqrt(static_cast<double>(c.hidden));
  return options;
}

models::ClassifierOptions classifier_options(const Configuration& c, int64_t classes) {
  return {.classes = classes,
          .mean_pooling = c.pooling == "mean",
          .bias = c.pooler,
          .activation = c.pooler ? nn::Activation::tanh : nn::Activation::gelu,
          .dropout = c.classifier_dropout >= 0 ? c.classifier_dropout : c.dropout};
}

}  // namespace adjoin::train
