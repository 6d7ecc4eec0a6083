#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace adjoin {

/// A linear map between tensors that live on many workers, and its adjoint.
struct LinearMap {
  std::function<at::Tensor(const at::Tensor&)> forward, adjoint;
};

/// Applies a map so that autograd differentiates through it, to any order: backward applies the adjoint, by this same
/// function, so nothing is saved. Every worker that takes part in the map must call backward.
///
/// The output requires a gradient if `x` does, or if `requires_grad` says so: pass what all workers agree on where a
/// worker may hold no part of `x`, or its backward would wait for a peer that never comes.
at::Tensor apply(const LinearMap& map, const at::Tensor& x, bool requires_grad = false);

}  // namespace adjoin
