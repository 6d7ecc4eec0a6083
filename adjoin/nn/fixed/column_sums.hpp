#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "adjoin/partition/split.hpp"

namespace adjoin::nn::fixed {

/// Adds the rows of x to `sum`, one leaf after the other, as the gradient of a bias: within a leaf, a range of rows, in float64 from
/// its first row to its last, and the leaf's sum is then rounded to float32 and added. The bits of a column depend on where the
/// leaves begin and end, not on the other columns nor on threads.
/// Shapes: sum [n] in float32, contiguous; x [rows, n]
void add_column_sums(const at::Tensor& sum, const at::Tensor& x, std::span<const Range> leaves);

}  // namespace adjoin::nn::fixed
