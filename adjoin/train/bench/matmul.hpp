#pragma once

#include <cstdint>
#include <optional>

#include "adjoin/linalg/products.hpp"
#include "adjoin/train/bench/side_by_side.hpp"

namespace adjoin::train {

/// What `adjoin bench matmul` is asked.
struct BenchMatmulOptions {
  SideBySideOptions run;
  linalg::Product product = linalg::Product::nt;
  std::optional<int64_t> chunk;           // none: auto
  int64_t length = 8192, features = 768;  // rows T in all, and D
};

/// Times a product of matrices that are split over rows, forward and backward, in float32, beside LibTorch's own on one
/// worker.
SideBySide bench_matmul(const BenchMatmulOptions& options);

}  // namespace adjoin::train
