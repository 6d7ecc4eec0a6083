#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/models/sampling.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// The options of `adjoin generate`.
struct GenerationRequest : ModelUse {
  std::vector<std::string> prompts;
  /// Further prompts, some at a time and none at the end, called on rank 0 when those before are answered; null: there are none.
  std::function<std::vector<std::string>()> more = nullptr;
  std::optional<int64_t> tokens;  // at most so many are written; default 100, or what the model's context has room for
  std::optional<models::Sampling> sampling;  // default: always the likeliest token
};

struct WrittenText {
  std::string prompt, continuation;
  int64_t tokens = 0;  // number of tokens in the continuation
};

/// Called on rank 0 with what is written. Bytes that turn out not to be UTF-8 are passed on unchanged.
struct Readers {
  std::function<void(std::string_view text)> piece = {};    ///< for a single text: whole characters as they are written
  std::function<void(const WrittenText& text)> whole = {};  ///< for each text, in the order of the prompts
};

/// Continues texts by a trained decoder, on any layout. Several texts are written at once and take turns, which fills the
/// stages of a pipeline.
/// Throws: InvalidArgument for a model that is not a decoder, for an empty prompt, and as models::generate
void generate(const GenerationRequest& request, const Readers& readers);

}  // namespace adjoin::train
