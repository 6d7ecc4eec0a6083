#pragma once

#include <cstdint>
#include <string>

#include "adjoin/data/samples.hpp"

namespace adjoin::train {

/// The texts that a command is to read: both parts of `data`, "sample" being the embedded corpus; at most `samples` of each
/// (0: all).
struct TextSource {
  std::string data;
  data::Columns columns;
  int64_t samples = 0;
};

}  // namespace adjoin::train
