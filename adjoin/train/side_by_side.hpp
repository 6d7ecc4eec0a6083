#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// How a benchmark compares distributed work with one worker's.
struct SideBySideOptions {
  WorkerOptions workers;
  int64_t times = 10;  // measured, after a first one that is not
};

/// Work with a gradient, called in turn.
struct Pass {
  std::function<void()> forward, backward;
};

/// Medians of seconds, where distributed work and that of one worker with the threads of all took turns in one run.
struct SideBySide {
  struct Seconds {
    double forward = 0, backward = 0, both = 0;
  };
  Seconds distributed, local;
  double forward_ratio = 0, ratio = 0;  // distributed / local, of forward and of both
  Seconds plain;                        // of other distributed work that took turns too, where there was some
  double plain_ratio = 0;               // distributed / plain, of both
  std::vector<int64_t>
      peak_memory_bytes;  // of each rank's tensors in the distributed work, those it begins with included
};

/// Times what `distributed` makes on each worker beside what `local` makes on the first and, where it is there, what `plain`
/// makes on each; all begin and end together. The same on every process of an MPI job.
/// Throws: as run_workers, what the work throws, and InvalidArgument for less than one measurement
SideBySide side_by_side(const SideBySideOptions& options,
                        const std::function<Pass(const Communicator& world)>& distributed,
                        const std::function<Pass()>& local,
                        const std::function<Pass(const Communicator& world)>& plain = {});

}  // namespace adjoin::train
