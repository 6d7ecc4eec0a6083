#pragma once

#include <ATen/ATen.h>
#include <torch/nn/module.h>

namespace adjoin::testing {

/// Gives all parameters values in float64 that depend on their order and on `begin` alone: LibTorch's generator, by which a module
/// draws, is shared by the threads of ranks.
inline void fill_with_waves(torch::nn::Module& module, double scale = 0.3, double begin = 0) {
  const at::NoGradGuard no_gradient;
  module.to(at::kDouble);
  for (at::Tensor& p : module.parameters())
    p.copy_(((at::arange(p.numel(), at::kDouble) + (begin += 100)) * 0.37).sin().view(p.sizes()) * scale);
}

}  // namespace adjoin::testing
