#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// x as autocast gives it to a matrix product, so that what moves, and its gradient, is 16-bit too.
at::Tensor as_in_product(const at::Tensor& x);

/// Rows that are split over the ranks of a group.
struct SplitRows {
  Communicator group;
  Split split;
};

/// X W^T + b, whose gradients of W and b can wait (movement/postponed.hpp). X is x or, where rows are split, x of all ranks: a
/// column-parallel layer of rows that are split between such layers.
///
/// x is kept for backward, under autocast as it went into the product, and so are the parameters, which are cast once more there.
/// Of split rows a rank keeps its own alone, which are gathered once more there.
///
/// Shape:   x [*, in], weight [out, in], bias [out] or undefined -> [*, out];
///          with split rows x [rows_r, in] with the rows of this rank -> [rows, out]
/// Kinds:   as x, weight and bias are; with split rows split -> split, of rows and then of features
/// Adjoint: of split rows a reduce_scatter of the gradient of X, then once differentiable
/// Cost:    nothing; with split rows an all-gather of x forward; backward another, and a reduce-scatter of X's gradient
/// Throws:  InvalidArgument where x does not have the rows of this rank
/// Source:  Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198,
///          section 4.2.2
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                          const std::optional<SplitRows>& rows = {});

}  // namespace adjoin::nn
