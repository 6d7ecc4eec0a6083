#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/models/generate.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// What `adjoin generate` is asked.
struct GenerationRequest : ModelUse {
  std::vector<std::string> prompts;
  std::optional<int64_t> tokens;  // the most that are written; else 100, or what the model's context has room for
  std::optional<models::Sampling> sampling;  // else always the likeliest token
};

struct WrittenText {
  std::string prompt, continuation;
  int64_t tokens = 0;  // of the continuation
};

/// Whom rank 0 tells of what is written. Bytes that are not UTF-8 come as they are when it is known that they are not.
struct Readers {
  std::function<void(std::string_view text)> piece = {};    ///< of a lone text, in whole UTF-8 characters as they come
  std::function<void(const WrittenText& text)> whole = {};  ///< of each text, in the order of the prompts
};

/// Writes texts on by a trained decoder, on any layout: some at once, which take turns and so fill the stages of a pipeline.
/// Throws: InvalidArgument for a model that is no decoder, an empty prompt, and as models::generate
void generate(const GenerationRequest& request, const Readers& readers);

}  // namespace adjoin::train
