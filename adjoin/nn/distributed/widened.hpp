#pragma once

#include <ATen/core/Tensor.h>

namespace adjoin::nn {

/// x as float32 if it has a 16-bit type, else unchanged: sums are computed so, as in LibTorch.
inline at::Tensor widened(const at::Tensor& x) {
  return at::isFloatingType(x.scalar_type()) && x.element_size() < 4 ? x.to(at::kFloat) : x;
}

}  // namespace adjoin::nn
