#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/models/decoder.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/models/sampling.hpp"

namespace adjoin::models {

struct GenerateOptions {
  std::optional<int64_t> tokens = {};     ///< the most of a text; 100, or what its context has room for, unless given
  std::optional<Sampling> sampling = {};  ///< unless given, always the likeliest word
  std::vector<int64_t> ends = {};         ///< tokens that end the text; they are not given out
  int64_t pieces =
      0;  ///< words below this alone are written, where the embedding has more rows than a vocabulary; 0: all
  bool caches = true;  ///< keep keys and values of what is there; else each token computes all again
};

using Tokens = std::vector<int64_t>;

/// Writes texts on by a model of decoder(decoder): a prompt goes through the model at once, then a token a pass; texts take turns.
/// Called by all ranks of the model's group with the same arguments; each gets all tokens of each text, `each` one after another as
/// they come. In float64 they are the same in every layout, and of each text whatever others there are; texts are drawn apart.
///
/// The ranks of `stages` may each have some of the segments, one stage after another; so texts fill a pipeline.
///
/// Cost:   a token: a forward pass of one row, a read of the keys and values before it, and an all-gather of one row of
///         scores; between stages a message of one row, and the token back to all of them. Memory: the keys and values of
///         prompts and tokens, cut over heads as the model.
/// Throws: InvalidArgument for an empty prompt, tokens of it that are no words, fewer tokens than 1, a prompt that leaves no room
///         for them in the model's context; for sampling as check(Sampling), and where scores are not finite
std::vector<Tokens> generate(const Model& model, const TransformerOptions& decoder, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options,
                             const std::function<void(size_t text, int64_t token)>& each = {},
                             const Communicator& stages = {});
/// The same of one text.
Tokens generate(const Model& model, const TransformerOptions& decoder, const Tokens& prompt,
                const GenerateOptions& options, const std::function<void(int64_t token)>& each = {});

}  // namespace adjoin::models
