#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <tuple>

#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {

// Attention of LibTorch's operations alone, on devices, whose fused kernels do not serve all types and options. Scores are a tensor. NaN
// passes through.

/// Queries [*, queries, size], and keys and values [*, keys, size], which are expanded where several heads share one. `hidden`, of
/// bool, hides scores [*, queries, keys] where it is defined; `drop` is dropout of probabilities, which is its own adjoint, or null.
struct ComposedAttention {
  at::Tensor q, k, v, hidden;
  double scale;
  std::function<at::Tensor(const at::Tensor& probabilities)> drop = {};

  /// out [*, queries, size], log_sum [*, queries]
  std::tuple<at::Tensor, at::Tensor> forward() const;
  /// The gradients of q, k and v, of each head.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& of_out, const at::Tensor& out,
                                                          const at::Tensor& log_sum) const;

 private:
  at::Tensor scores() const;
  at::Tensor dropped(const at::Tensor& probabilities) const;
};

/// attend() and attend_backward().
PartialAttention attend_composed(const TileInputs& x, const Tile& tile, const AttentionOptions& options);
TileInputs attend_composed_backward(const TileInputs& x, const TileResults& y, const Tile& tile,
                                    const AttentionOptions& options);

}  // namespace adjoin::nn
