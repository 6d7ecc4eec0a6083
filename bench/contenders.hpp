#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/comm/contract/collective.hpp"

namespace bench {

/// Microseconds of one call, each the median of its turns (adjoin/lab/measure/timing.hpp).
struct Row {
  adjoin::Collective collective;
  int ranks = 0;
  int64_t bytes = 0;
  double threads_us = 0;      // this project's threads
  double mpi_us = 0;          // the library's own call
  double mpi_backend_us = 0;  // the same through this project
  double processes_us = 0;    // this project's processes, which reach each other's memory
  double limit_us = 0;        // the least traffic at the bandwidth of as many threads that copy
};

/// Measures all contenders for one operation and size. Called by all ranks of an MPI job; right on rank 0, which also runs
/// the threads, as many as the job has ranks, while the other processes sleep. Threads and processes take turns three times, and
/// the three contenders of processes turn by turn, at one thread level.
Row measure_contenders(adjoin::Collective collective, int64_t bytes, double seconds);

}  // namespace bench
