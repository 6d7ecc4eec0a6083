#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "adjoin/models/generate.hpp"
#include "adjoin/train/grid_sizes.hpp"

namespace adjoin::train {

/// What `adjoin generate` is asked.
struct GenerationRequest {
  std::string model;  // the output folder of a training run
  std::string prompt;
  std::optional<int64_t> tokens;  // the most that are written; else 100, or what the model's context has room for
  std::optional<models::Sampling> sampling;  // else always the likeliest token
  GridSizes grid;
  std::string backend = "auto";
  int64_t threads_per_rank = 0;
};

/// Writes a text on by a trained decoder, on any layout. `write` gets prompt and continuation in whole UTF-8 characters as
/// they come, on rank 0 alone; bytes that are not UTF-8 come as they are when it is known that they are not.
/// Throws: InvalidArgument for a model that is no decoder, an empty prompt, and as models::generate
void generate(const GenerationRequest& request, const std::function<void(std::string_view text)>& write);

}  // namespace adjoin::train
