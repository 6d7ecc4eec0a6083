#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// How a benchmark compares distributed work with other work.
struct SideBySideOptions {
  WorkerOptions workers;
  int64_t times = 10;  // turns; 0: the distributed work's memory alone
};

/// Work on this rank, with a gradient or without.
struct Pass {
  std::function<void()> forward, backward = {};
};

/// One who takes turns. One worker's work is made on the first rank alone, and has the threads of all.
struct Entrant {
  std::string name;
  std::function<Pass(const Communicator& world)> make;
  bool is_one_worker = false;
};

/// What came of it, in seconds of a call: medians over the turns.
struct Result {
  std::string name;
  double forward = 0, backward = 0, both = 0;
  double forward_ratio = 0, ratio = 0;  // medians of the first one's time / this one's, of forward and of both
};

/// The results of distributed work and of what it is compared with, in the order in which they entered.
struct Comparison {
  std::vector<Result> results;  // none where nothing was timed
  /// Of each rank's tensors in the distributed work, those it begins with included.
  std::vector<int64_t> peak_memory_bytes;
};

/// Times the entrants of each comparison in turns, the first of which is the distributed work, one comparison after another.
/// The same on every process of an MPI job.
/// Throws: as run_workers, what the work throws, and InvalidArgument for less than no measurement
std::vector<Comparison> side_by_side(const SideBySideOptions& options, const std::vector<std::vector<Entrant>>& all);

/// The median of the seconds that `work` takes on all ranks, which begin together.
double median_seconds(int64_t times, const Communicator& world, const std::function<void()>& work);

}  // namespace adjoin::train
