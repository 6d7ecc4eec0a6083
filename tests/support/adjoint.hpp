#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::testing {

/// A float64 tensor of normal numbers: the same on all ranks if it is replicated, else each rank its own.
at::Tensor random_tensor(at::IntArrayRef shape, Kind kind, const Communicator& world, int64_t seed = 0);

/// The inner product of two distributed tensors: a replicated one counts once, all others sum over the workers.
double inner_product(const at::Tensor& a, const at::Tensor& b, Kind kind, const Communicator& world);

using Movement = std::function<at::Tensor(const at::Tensor&)>;

/// Checks <F x, y> = <x, F* y> to 1e-12 of max(|Fx||y|, |x||F*y|), F* being what autograd runs, and that F applied
/// twice over (its adjoint's adjoint) is F. `shape` is that of this rank's x.
void expect_adjoint(const Movement& movement, Kind from, Kind to, at::IntArrayRef shape, const Communicator& world);

}  // namespace adjoin::testing
