#pragma once

#include <torch/nn/pimpl.h>

#include "adjoin/nn/choices.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

struct NormOptions {
  using Kind = NormKind;
  int64_t features = 0;
  Kind kind = Kind::layer;
  double epsilon = 1e-5;
  bool split_rows = false;  ///< sequence parallelism: each rank along the axis has its own rows
  at::TensorOptions tensor = at::kFloat;
};

/// Normalises each token's features. Every rank along the axis holds the whole token and does the same, so nothing moves. Where
/// rows are split over the ranks, each rank normalises its own; the weights are then copied, and their gradients summed.
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
  Communicator of_rows_;  // whose ranks have some rows each
  at::Tensor weight_, bias_;
};
TORCH_MODULE(ReplicatedNorm);

}  // namespace adjoin::nn
