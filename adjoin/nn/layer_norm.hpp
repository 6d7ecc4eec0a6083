#pragma once

#include <torch/nn/pimpl.h>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// Normalises each token's features; every rank along the axis holds the whole token and does the same, so nothing moves.
/// Shape: [*, features] -> the same
/// Kinds: replicated -> replicated
class ReplicatedLayerNormImpl : public ShardedModule {
 public:
  ReplicatedLayerNormImpl(int64_t features, const Grid& grid, const std::string& axis,
                          const at::TensorOptions& options = at::kFloat, double epsilon = 1e-5);
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t features_;
  double epsilon_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(ReplicatedLayerNorm);

}  // namespace adjoin::nn
