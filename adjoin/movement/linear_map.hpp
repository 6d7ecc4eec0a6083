#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// A linear map between tensors that live on many workers, and its adjoint.
struct LinearMap {
  std::function<at::Tensor(const at::Tensor&)> forward, adjoint;
};

/// Applies a map so that autograd differentiates through it, to any order: backward applies the adjoint, by this same
/// function, so nothing is saved. Every worker that takes part in the map must call backward.
///
/// The output requires a gradient if `x` does, which is equal on all workers that take part, zero-volume tensors
/// included: a worker whose x requires none would not come to backward, and its peers would wait for it.
at::Tensor apply(const LinearMap& map, const at::Tensor& x);

/// The same for a map in which the workers of a group take part.
/// Throws: in checked mode, InvalidArgument on all of them that names those whose x requires a gradient where others'
///         does not
at::Tensor apply(const LinearMap& map, const at::Tensor& x, const Communicator& workers);

/// Complex tensors travel as pairs of reals: `movement` applied to x, or to its pairs along a last dim more.
at::Tensor on_reals(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor&)>& movement);
/// The shape of those pairs.
std::vector<int64_t> with_pairs(std::vector<int64_t> shape);

}  // namespace adjoin
