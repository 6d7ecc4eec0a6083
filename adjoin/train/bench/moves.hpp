#pragma once

#include <cstdint>

#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// What `adjoin bench moves` is asked.
struct BenchMovesOptions {
  WorkerOptions workers;
  int64_t rows = 4096, columns = 4096;  // of a float32 matrix
  int64_t times = 21;                   // measured, after a first one that is not
};

/// Medians of seconds, each pair measured in turn in one run.
struct BenchMovesResult {
  double repartition = 0;  // from rows to columns
  double copy = 0;         // at::empty_like(x).copy_(x) of the whole matrix, by one worker with the threads of all
  double halo = 0;         // a prepared halo exchange of a row on each side
  double raw_halo = 0;     // the bare exchange of the same boxes, and a copy of the interior into a new tensor
};

/// Times movements beside what they come to; the same on every process of an MPI job.
BenchMovesResult bench_moves(const BenchMovesOptions& options);

}  // namespace adjoin::train
