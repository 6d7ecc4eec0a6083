#pragma once

#include <cstdint>
#include <string>

#include "adjoin/data/samples.hpp"

namespace adjoin::train {

/// The texts that a command reads: both parts of `data`, where "sample" is the embedded corpus; at most `samples` of each part
/// (0: all). With `splits` one file gives both parts: every tenth text of each class is in the test part.
struct TextSource {
  std::string data;
  data::Columns columns;
  int64_t samples = 0;
  bool splits = false;
};

}  // namespace adjoin::train
