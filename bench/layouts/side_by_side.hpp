#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adjoin/train/workers.hpp"

namespace adjoin::bench {

/// How a benchmark compares distributed work with other work.
struct SideBySideOptions {
  train::WorkerOptions workers;
  int64_t times = 10;  // turns; 0: only the distributed work's memory is measured
};

/// Work on this rank, with a gradient or without.
struct Pass {
  std::function<void()> forward, backward = {};
};

/// One of the works that take turns. With is_one_worker only the first rank makes the work, and runs it with the threads of
/// all.
struct Entrant {
  std::string name;
  std::function<Pass(const Communicator& world)> make;
  bool is_one_worker = false;
};

/// The result of an entrant, in seconds a call: medians over the turns.
struct Result {
  std::string name;
  double forward = 0, backward = 0, both = 0;
  double forward_ratio = 0, ratio = 0;  // medians of the first entrant's time / this one's: forward, both
};

/// The results of distributed work and of what it is compared with, in the order of the entrants.
struct Comparison {
  std::vector<Result> results;  // empty where nothing was timed
  /// Peak memory of each rank's tensors in the distributed work, including those that it begins with.
  std::vector<int64_t> peak_memory_bytes;
};

/// Times one comparison after another. In each, the entrants take turns; the first entrant is the distributed work. The result
/// is the same on every process of an MPI job.
/// Throws: as run_workers, what the work throws, and InvalidArgument for a negative number of turns
std::vector<Comparison> side_by_side(const SideBySideOptions& options, const std::vector<std::vector<Entrant>>& all);

}  // namespace adjoin::bench
