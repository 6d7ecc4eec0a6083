#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "adjoin/linalg/products.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// What `adjoin bench matmul` is asked.
struct BenchMatmulOptions {
  WorkerOptions workers;
  linalg::Product product = linalg::Product::nt;
  std::optional<int64_t> chunk;           // none: auto
  int64_t length = 8192, features = 768;  // rows T in all, and D
  int64_t times = 10;                     // measured, after a first one that is not
};

/// Medians, the distributed product and that of one worker with the threads of all measured in turn in one run.
struct BenchMatmulResult {
  struct Seconds {
    double forward = 0, backward = 0, both = 0;
  };
  Seconds distributed, local;
  double forward_ratio = 0, ratio = 0;     // distributed / local, of forward and of both
  std::vector<int64_t> peak_memory_bytes;  // of each rank's tensors, factors and gradients included
};

/// Times a product of matrices that are split over rows, forward and backward, in float32; the same on every process of an
/// MPI job.
BenchMatmulResult bench_matmul(const BenchMatmulOptions& options);

}  // namespace adjoin::train
