#pragma once

#include <torch/nn/pimpl.h>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

struct NormOptions {
  enum class Kind : uint8_t {
    layer,  ///< the features minus their mean, by their deviation; with a weight and a bias
    rms,    ///< the features by the root of the mean of their squares; with a weight
  };
  int64_t features = 0;
  Kind kind = Kind::layer;
  double epsilon = 1e-5;
  bool split_rows = false;  ///< sequence parallelism: each rank along the axis has rows of its own
  at::TensorOptions tensor = at::kFloat;
};

/// Normalises each token's features; every rank along the axis holds the whole token and does the same, so nothing moves.
/// With rows that are split over the ranks each normalises its own, and the weights are copied: their gradients are summed.
/// Shape:  [*, features] -> the same
/// Kinds:  replicated -> replicated, or split -> split
/// Source: Ba et al., "Layer normalization", arXiv 1607.06450; Zhang and Sennrich, "Root mean square layer normalization",
///         arXiv 1910.07467
class ReplicatedNormImpl : public ShardedModule {
 public:
  ReplicatedNormImpl(NormOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& x);

 private:
  NormOptions options_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(ReplicatedNorm);

}  // namespace adjoin::nn
