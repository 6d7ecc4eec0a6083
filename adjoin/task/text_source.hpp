#pragma once

#include <cstdint>
#include <string>

#include "adjoin/data/samples.hpp"

namespace adjoin::train {

/// The texts that a command reads: both parts of `data`, where "sample" is the embedded corpus; at most `samples` of each part
/// (0: all). With `splits` one source gives both parts: the test part is every tenth text of each class, or the last 20th of a
/// decoder's documents. Without it, what has no test part is one as a whole.
struct TextSource {
  std::string data;
  data::Columns columns;
  int64_t samples = 0;
  bool splits = false;
};

}  // namespace adjoin::train
