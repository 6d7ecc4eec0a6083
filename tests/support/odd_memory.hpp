#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/layouts.hpp"

namespace adjoin::testing {

/// x with the same values in memory that is odd in a drawn way: in another order, with gaps, at an offset, or not yet negated or
/// conjugated, as imag(conj(z)) is. Differentiable.
at::Tensor in_odd_memory(const at::Tensor& x, Numbers& draw);

/// Tensors of x's shape whose elements no loop can read, each with what an error calls it.
std::vector<std::pair<std::string, at::Tensor>> without_plain_memory(const at::Tensor& x);

}  // namespace adjoin::testing
