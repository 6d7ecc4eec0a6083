#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// How a benchmark compares distributed work with one worker's.
struct SideBySideOptions {
  WorkerOptions workers;
  int64_t times = 10;  // measured, after a first one that is not; 0: the distributed work's memory alone
};

/// Work with a gradient, called in turn.
struct Pass {
  std::function<void()> forward, backward;
};

/// Medians of seconds (0 where nothing was timed), where distributed work and that of one worker with the threads of all took turns in one run.
struct SideBySide {
  struct Seconds {
    double forward = 0, backward = 0, both = 0;
  };
  Seconds distributed, local;
  double forward_ratio = 0, ratio = 0;  // distributed / local, of forward and of both
  Seconds plain;                        // of other distributed work that took turns too, where there was some
  double plain_ratio = 0;               // distributed / plain, of both
  /// Of each rank's tensors in the distributed work, those it begins with included.
  std::vector<int64_t> peak_memory_bytes;
};

/// What takes turns.
struct Contenders {
  std::function<Pass(const Communicator& world)> distributed;
  std::function<Pass()> local;                                ///< made on the first worker alone
  std::function<Pass(const Communicator& world)> plain = {};  ///< other distributed work, or none
};

/// Times contenders, one set after another; all workers begin and end together. The same on every process of an MPI job.
/// Throws: as run_workers, what the work throws, and InvalidArgument for less than no measurement
std::vector<SideBySide> side_by_side(const SideBySideOptions& options, const std::vector<Contenders>& all);

}  // namespace adjoin::train
