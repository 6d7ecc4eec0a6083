#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// x as autocast gives it to a matrix product, so that what moves, and its gradient, is 16-bit too.
at::Tensor as_in_product(const at::Tensor& x);

/// X W^T + b, where X is x of all ranks: a column-parallel layer of rows that are split between such layers.
///
/// Only the rank's own x and the weight wait for backward: there X is gathered once more.
///
/// Shape:   x [rows_r, in] with rows.size(rank) rows, weight [out_r, in], bias [out_r] or undefined -> [rows, out_r]
/// Kinds:   split -> split, of rows and then of features
/// Adjoint: reduce_scatter of the gradient of X; once differentiable
/// Cost:    an all-gather of x forward; backward another, and a reduce-scatter of X's gradient
/// Throws:  InvalidArgument where x does not have the rows of this rank
/// Source:  Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198,
///          section 4.2.2
at::Tensor gathered_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const Communicator& group, const Split& rows);

}  // namespace adjoin::nn
