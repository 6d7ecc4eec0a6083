#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// X_g W_g^T of each group g: rows that lie one behind another, and a matrix of its own. The gradient of the weight can wait
/// (movement/postponed.hpp).
///
/// Shape:   x [rows, in], weight [groups * out, in], where matrix g has the rows from g * out on; rows_of [groups], which add up
///          to `rows` -> [rows, out]
/// Kinds:   as x and weight are
/// Adjoint: once differentiable; a matrix without rows gets zeros
/// Cost:    nothing moves; x is kept for backward, under autocast as it went into the product
/// Throws:  InvalidArgument for no groups, a weight that they do not divide, or rows that are not x's
at::Tensor grouped_product(const at::Tensor& x, const at::Tensor& weight, const std::vector<int64_t>& rows_of);

struct GroupedLinearOptions {
  int64_t groups = 1, in_features = 0, out_features = 0;
  ParallelLinearOptions::Cut cut = ParallelLinearOptions::Cut::none;
  std::optional<Split> split = {};       ///< of the cut features; balanced unless given
  std::string groups_axis = {};          ///< the axis over which the groups are split, a balanced part each; "": none
  std::optional<double> deviation = {};  ///< of the initial weights, as a ParallelLinear's
  at::TensorOptions tensor = at::kFloat;
};

/// The module of grouped_product, of a weight [groups * out, in]: whole groups are split over one axis of a grid, and the features
/// of each are cut over another, as in a ParallelLinear. It moves nothing.
class GroupedLinearImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for sizes below 1, or a split that does not fit
  GroupedLinearImpl(const GroupedLinearOptions& options, const Grid& grid, const std::string& axis);
  /// `rows_of`: of each group that is here
  at::Tensor forward(const at::Tensor& x, const std::vector<int64_t>& rows_of) {
    return grouped_product(x, weight_, rows_of);
  }

 private:
  at::Tensor weight_;
};
TORCH_MODULE(GroupedLinear);

}  // namespace adjoin::nn
