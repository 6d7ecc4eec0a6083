#include "adjoin/models/decoder.hpp"

#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::models {
namespace {

int64_t inner_features(const DecoderOptions& options) {
  if (options.inner != 0) return options.inner;
  const bool is_swiglu = options.activation == nn::Activation::swiglu;
  return is_swiglu ? (8 * options.hidden + 2) / 3 : 4 * options.hidden;
}

TrunkOptions trunk_options(const DecoderOptions& options) {
  const bool is_rotary = options.positions == DecoderOptions::Positions::rotary;
  return {.model = "Decoder",
          .words = options.words,
          .layers = options.layers,
          .positions = is_rotary ? 0 : options.context,
          .longest = options.context,
          .embedding_cut = nn::ParallelEmbeddingOptions::Cut::vocabulary,
          .embedding_deviation = options.embedding_deviation,
          .embedding_dropout = options.dropout,
          .block = {.attention = {.hidden = options.hidden,
                                  .heads = options.heads,
                                  .key_heads = options.key_heads,
                                  .causal = true,
                                  .rotary_base = is_rotary ? options.rotary_base : 0,
                                  .dropout = options.attention_dropout},
                    .feed_forward = {.in_features = options.hidden,
                                     .hidden_features = inner_features(options),
                                     .out_features = options.hidden,
                                     .bias = false,
                                     .activation = options.activation},
                    .experts = options.experts,
                    .dropout = options.dropout,
                    .rows = options.rows}};
}

}  // namespace

std::vector<Segment> decoder(const DecoderOptions& options) {
  require(options.context >= 1,
          [&] { return "Decoder: expected at least 1 token of context, got " + std::to_string(options.context); });
  const TrunkOptions of_trunk = trunk_options(options);
  std::vector<Segment> segments = trunk(of_trunk);
  segments.push_back(
      {.name = "head",
       .kind = "head",
       .cost = 2.0 * static_cast<double>(options.hidden * options.words),
       .parts = {norm_part(of_trunk), words_part(of_trunk)},
       .forward = [](const Modules& modules, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache*) {
         return modules.as<nn::ParallelEmbeddingImpl>(1).scores(modules.as<nn::ReplicatedLayerNormImpl>(0).forward(x),
                                                                pass.rows);
       }});
  return segments;
}

}  // namespace adjoin::models
