#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// x in the type in which autocast gives it to a matrix product, so that messages of it and of its gradient are 16-bit too.
at::Tensor as_in_product(const at::Tensor& x);

/// Rows that are split over the ranks of a group.
struct SplitRows {
  Communicator group;
  Split split;
};

/// X W^T + b; the gradients of W and b can wait (movement/postponed.hpp). X is x or, where rows are split, the x of all ranks:
/// then it is a column-parallel layer for rows that are split between layers.
///
/// Kept for backward: x, under autocast in the type in which it entered the product, and the parameters, which are cast again
/// in backward. Of split rows a rank keeps only its own; backward gathers them again.
///
/// Shape:   x [*, in], weight [out, in], bias [out] or undefined -> [*, out]; with split rows x [rows_r, in], the rows of this
///          rank -> [rows, out]
/// Kinds:   as x, weight and bias are; with split rows split -> split, of rows and then of features
/// Adjoint: once differentiable; with split rows a reduce_scatter of the gradient of X
/// Cost:    no communication; with split rows an all-gather of x forward, and backward another one and a reduce-scatter of X's
///          gradient
/// Throws:  InvalidArgument where x does not have the rows of this rank
/// Source:  Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198,
///          section 4.2.2
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                          const std::optional<SplitRows>& rows = {});

}  // namespace adjoin::nn
