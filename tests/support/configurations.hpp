#pragma once

#include <string_view>

#include "adjoin/task/configuration.hpp"

namespace adjoin::testing {

/// A small "decoder" or "classifier" whose heads, features and samples of a batch neither 2, 3 nor 4 divide, with dropout. A test adds
/// what it is about.
inline train::Configuration uneven(std::string_view model) {
  train::Configuration c = train::configuration_of(model == "decoder" ? "gpt-tiny" : "tiny");
  c.hidden = 30;
  c.heads = 5;
  c.sequence = 22;
  c.vocabulary_size = 53;
  c.dropout = 0.1;
  c.batch = 7;
  c.lr = 3e-3;
  return c;
}

}  // namespace adjoin::testing
