#pragma once

#include <ATen/core/Tensor.h>

namespace adjoin::nn {

/// x as float32 where it is of 16 bits, else as it is: sums are taken so, as LibTorch takes them.
inline at::Tensor widened(const at::Tensor& x) {
  return at::isFloatingType(x.scalar_type()) && x.element_size() < 4 ? x.to(at::kFloat) : x;
}

}  // namespace adjoin::nn
