#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "adjoin/models/decoder.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/nn/parameter.hpp"
#include "examples/networks/decoder.hpp"
#include "tests/support/one_worker.hpp"

namespace adjoin::testing {

/// The name in models::decoder of a parameter of example::Decoder: "blocks.0.up.weight" is "block0.feed_forward.column.weight".
inline std::string name_in_models(std::string name) {
  const std::pair<std::string, std::string> parts[] = {
      {"blocks.", "block"}, {".up.", ".feed_forward.column."}, {".down.", ".feed_forward.row."}};
  for (const auto& [plain, ours] : parts)
    if (const size_t begin = name.find(plain); begin != std::string::npos) name.replace(begin, plain.size(), ours);
  return name;
}

/// Both, on one worker, with equal weights in float64 and without dropout.
struct DecoderPair {
  explicit DecoderPair(example::DecoderOptions options)
      : ours(models::decoder({.words = options.words,
                              .layers = options.layers,
                              .hidden = options.hidden,
                              .heads = options.heads,
                              .context = 256,
                              .positions = models::TransformerOptions::Positions::rotary,
                              .dropout = 0}),
             one_worker(), at::kDouble),
        plain(example::DecoderOptions{options.words, options.layers, options.hidden, options.heads, /*dropout=*/0}) {
    nn::initialize(*ours, 3);
    for (const nn::Parameter& parameter : nn::parameters_of(*ours))
      if (parameter.layout.dims() == 1) nn::init::normal_(parameter, 4, /*mean=*/0.5, /*std=*/0.2);  // norms
    plain->to(at::kDouble);
    const at::NoGradGuard no_gradient;
    const auto weights = ours->named_parameters();
    for (const auto& weight : plain->named_parameters()) weight->copy_(weights[name_in_models(weight.key())]);
  }
  models::Model ours;
  example::Decoder plain;
};

}  // namespace adjoin::testing
