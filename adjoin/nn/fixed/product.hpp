#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "adjoin/partition/split.hpp"

namespace adjoin::nn::fixed {

// Products of matrices in which an element has the same bits in any piece: whichever rows of the left and columns of the right
// matrix are there beside its own, and whatever the number of threads. LibTorch's own products choose another order of summands for
// few rows or columns, and for each number of threads; here each piece of the result is computed by one thread, and where it has
// fewer than 4 rows or 16 columns (32 in bfloat16), it is computed with zeros beside it. For float32 and bfloat16; in float64 MKL keeps no order.

/// a b, as FixedOrder::row_by_row says. Shapes: [m, k], [k, n] -> [m, n], any strides
/// Throws: InvalidArgument for other types than float32 and bfloat16
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

/// Adds dy^T x to `sum`, one leaf after the other: a leaf is a range of rows of both. The bits depend on where the leaves begin and
/// end, and on nothing else; a leaf without rows adds nothing. In bfloat16 each leaf's product is rounded before it is added.
/// Shapes: sum [m, n] in float32, contiguous; dy [rows, m], x [rows, n]
/// Throws: InvalidArgument as product, and for a sum of another type
void add_outer_products(const at::Tensor& sum, const at::Tensor& dy, const at::Tensor& x,
                        std::span<const Range> leaves);

}  // namespace adjoin::nn::fixed
