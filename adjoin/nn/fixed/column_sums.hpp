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

/// Adds row i of x to row ids[i] of `sum`, one after the other, as the gradient of a table in which rows are looked up. The bits of a
/// column do not depend on the others.
/// Shapes: sum [words, n] in float32, contiguous; ids [rows] int64; x [rows, n]
void add_rows(const at::Tensor& sum, const at::Tensor& ids, const at::Tensor& x, std::span<const Range> leaves);

}  // namespace adjoin::nn::fixed
