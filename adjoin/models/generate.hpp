#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "adjoin/models/decoder.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/models/sampling.hpp"

namespace adjoin::models {

struct GenerateOptions {
  int64_t tokens = 100;                   ///< the most that are written
  std::optional<Sampling> sampling = {};  ///< unless given, always the likeliest word
  std::optional<int64_t> end = {};        ///< the token that ends the text; it is not given out
  bool caches = true;                     ///< keep keys and values of what is there; else each token computes all again
};

/// Writes a text on by a model of decoder(decoder): the prompt goes through the model at once, then a token a pass. Called by all ranks of the model's
/// group with the same arguments; each gets all tokens, `each` one after another as they come. In float64 they are the same
/// in every layout.
///
/// Cost:   a token: a forward pass of one row, a read of the keys and values before it, and an all-gather of one row of
///         scores. Memory: the keys and values of prompt and tokens, cut over heads as the model.
/// Throws: InvalidArgument for an empty prompt, tokens of it that are no words, fewer tokens than 1, prompt and tokens beyond
///         the model's context; for sampling as check(Sampling), and where scores are not finite
std::vector<int64_t> generate(const Model& model, const DecoderOptions& decoder, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options, const std::function<void(int64_t token)>& each = {});

}  // namespace adjoin::models
