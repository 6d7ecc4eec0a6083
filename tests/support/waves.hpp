#pragma once

#include <ATen/ATen.h>
#include <torch/nn/module.h>

namespace adjoin::testing {

// Numbers that depend on their order and on `begin` alone: LibTorch's generator is shared by the threads of ranks.

/// Shape: as given, in float64
inline at::Tensor waves_of(at::IntArrayRef sizes, double begin = 0) {
  return ((at::arange(c10::multiply_integers(sizes), at::kDouble) + begin) * 0.37).sin().view(sizes);
}

/// Gives all parameters values in float64, by their order.
inline void fill_with_waves(torch::nn::Module& module, double scale = 0.3, double begin = 0) {
  const at::NoGradGuard no_gradient;
  module.to(at::kDouble);
  for (at::Tensor& p : module.parameters()) p.copy_(waves_of(p.sizes(), begin += 100) * scale);
}

}  // namespace adjoin::testing
