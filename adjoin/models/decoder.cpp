#include "adjoin/models/decoder.hpp"

#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::models {

std::vector<Segment> decoder(TransformerOptions options, bool tied_scores) {
  require(options.context >= 1,
          [&] { return "Decoder: expected at least 1 token of context, got " + std::to_string(options.context); });
  options.causal = true;
  options.embedding_cut = nn::ParallelEmbeddingOptions::Cut::vocabulary;
  std::vector<Segment> segments = trunk(options, "Decoder");
  if (tied_scores) segments.front().parts.front().is_table = false;
  segments.push_back(
      {.name = "head",
       .kind = "head",
       .cost = 2.0 * static_cast<double>(options.hidden * options.words),
       .parts = {norm_part(options), words_part(options, tied_scores ? "embedding" : "scores")},
       .forward = [](const Modules& modules, const at::Tensor& x, const ForwardPass& pass, nn::KeyValueCache*) {
         return modules.as<nn::ParallelEmbeddingImpl>(1).scores(modules.as<nn::ReplicatedNormImpl>(0).forward(x),
                                                                pass.rows);
       }});
  return segments;
}

}  // namespace adjoin::models
