#pragma once

#include <cstdint>
#include <string>

#include "adjoin/data/samples.hpp"

namespace adjoin::train {

/// The texts that a command is to read: both parts of `data`, "sample" being the embedded corpus; at most `samples` of each
/// (0: all). `splits`: of one file every tenth text of each class is the test part, and the others are the training part.
struct TextSource {
  std::string data;
  data::Columns columns;
  int64_t samples = 0;
  bool splits = false;
};

}  // namespace adjoin::train
