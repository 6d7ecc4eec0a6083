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
  std::optional<int64_t> tokens = {};     ///< the most for each text; default 100, or the room in the context
  std::optional<Sampling> sampling = {};  ///< default: always the likeliest word
  std::vector<int64_t> ends = {};         ///< tokens that end the text; they are not returned
  int64_t pieces =
      0;  ///< only words below this number are written, where the embedding has more rows than the vocabulary; 0: all
  bool caches = true;  ///< keeps keys and values of earlier tokens; false: each token computes everything again
};

using Tokens = std::vector<int64_t>;

/// Continues texts by a model of decoder(decoder). A prompt goes through the model at once, then each pass computes one token;
/// the texts take turns. All ranks of the model's group call it with the same arguments, and all get all tokens of each text;
/// `each` gets them one after another as they are computed. In float64 the tokens are the same in every layout, and those of
/// one text do not depend on the other texts. Each text is drawn separately.
///
/// The ranks of `stages` may each have some of the segments, one stage after another; several texts fill this pipeline.
///
/// Cost:   for a token: a forward pass of one row, a read of the earlier keys and values, and an all-gather of one row of
///         scores; between stages a message of one row, and the token back to all stages. Memory: the keys and values of
///         prompts and tokens, cut over heads like the model.
/// Throws: InvalidArgument for an empty prompt, prompt tokens that are not words, less than 1 token to write, or a prompt that
///         leaves no room for them in the model's context; for sampling as check(Sampling), and where scores are not finite
std::vector<Tokens> generate(const Model& model, const TransformerOptions& decoder, const std::vector<Tokens>& prompts,
                             const GenerateOptions& options,
                             const std::function<void(size_t text, int64_t token)>& each = {},
                             const Communicator& stages = {});
/// The same for one text.
Tokens generate(const Model& model, const TransformerOptions& decoder, const Tokens& prompt,
                const GenerateOptions& options, const std::function<void(int64_t token)>& each = {});

}  // namespace adjoin::models
