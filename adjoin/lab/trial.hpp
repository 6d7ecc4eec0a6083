#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "adjoin/lab/exercise.hpp"
#include "adjoin/lab/recording.hpp"

namespace adjoin::lab {

/// What became of an exercise.
struct Trial {
  Recording recording;  // a message's step is that of the algorithm's program
  int64_t steps = 0;    // of the program
  double seconds = 0;   // until the last rank was done: the median of some runs without the recorder
  bool is_right = false;
  std::vector<Values> held = {};  // by each rank in the end; empty where the operation gives it nothing
};

/// Carries an exercise out on thread workers, by an algorithm of the catalogue.
/// Cost: a thread a rank, and their buffers, three of eight bytes an element among them to check the result.
/// Throws: InvalidArgument for an algorithm that is none of the collective's, or a root that is no rank.
Trial try_out(const Exercise& exercise, std::string_view algorithm);

}  // namespace adjoin::lab
