#pragma once

#include <torch/nn/pimpl.h>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// Normalises each token's features; every rank along the axis holds the whole token and does the same, so nothing moves.
/// With rows that are split over the ranks each normalises its own, and the weights are copied: their gradients are summed.
/// Shape: [*, features] -> the same
/// Kinds: replicated -> replicated, or split -> split
class ReplicatedLayerNormImpl : public ShardedModule {
 public:
  ReplicatedLayerNormImpl(int64_t features, const Grid& grid, const std::string& axis,
                          const at::TensorOptions& options = at::kFloat, bool split_rows = false,
                          double epsilon = 1e-5);
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t features_;
  double epsilon_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(ReplicatedLayerNorm);

}  // namespace adjoin::nn
