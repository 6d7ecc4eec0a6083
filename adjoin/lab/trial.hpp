#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "adjoin/lab/exercise.hpp"
#include "adjoin/lab/recording.hpp"

namespace adjoin::lab {

/// The result of an exercise.
struct Trial {
  Recording recording;  // the step of a message is its step in the algorithm's program
  int64_t steps = 0;    // of the program
  double seconds = 0;   // until the last rank was done: the median of several runs without the recorder
  bool is_right = false;
  std::vector<Values> held = {};  // by each rank at the end; empty where the operation gives it nothing
};

/// Carries out an exercise on thread workers, with an algorithm of the catalogue.
/// Cost: one thread per rank, and the ranks' buffers, including three with eight bytes per element to check the result.
/// Throws: InvalidArgument for an algorithm that the collective does not have, or a root that is not a rank.
Trial try_out(const Exercise& exercise, std::string_view algorithm);

}  // namespace adjoin::lab
