#pragma once

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adjoin::testing {

/// Scales the gradients to a norm of at most `limit` and returns what it was. (torch's own divides by norm + 1e-6.)
inline double clip(const torch::nn::Module& module, double limit) {
  double squares = 0;
  for (const at::Tensor& p : module.parameters()) squares += p.grad().square().sum().item<double>();
  const double norm = std::sqrt(squares);
  for (const at::Tensor& p : module.parameters()) p.grad().mul_(std::min(1.0, limit / norm));
  return norm;
}

/// An optimizer of torch::optim in which vectors do not decay.
template <class Reference, class Options>
Reference torchs_optimizer(const torch::nn::Module& module, const Options& options) {
  std::vector<at::Tensor> matrices, vectors;
  for (const at::Tensor& p : module.parameters()) (p.dim() > 1 ? matrices : vectors).push_back(p);
  using Group = torch::optim::OptimizerParamGroup;
  Reference reference({Group(matrices), Group(vectors)}, options);
  // Not as the group's options: SGD takes the defaults in their place.
  static_cast<Options&>(reference.param_groups()[1].options()).weight_decay(0);
  return reference;
}

}  // namespace adjoin::testing
