#pragma once

#include <ATen/ATen.h>
#include <torch/nn/modules/container/sequential.h>

#include "adjoin/comm/communicator.hpp"
#include "tests/support/one_worker.hpp"

namespace adjoin::testing {

inline at::Tensor drawn(at::IntArrayRef shape, int64_t seed) {
  return random_tensor(shape, Kind::replicated, Communicator(), seed);
}

inline torch::nn::Sequential filled(torch::nn::Sequential module, int64_t seed) {
  module->to(at::kDouble);
  const at::NoGradGuard no_gradient;
  for (const at::Tensor& weight : module->parameters()) weight.copy_(drawn(weight.sizes(), seed++) * 0.5);
  return module;
}

inline at::Tensor mean_square(const at::Tensor& y) {
  return y.square().sum() / y.size(0);  // NaN of no samples
}

}  // namespace adjoin::testing
