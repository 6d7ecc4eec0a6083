#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// X_g W_g^T for each group g: the rows of one group follow those of the group before, and each group has its own matrix. The
/// gradient of the weight can wait (movement/postponed.hpp).
///
/// Shape:   x [rows, in], weight [groups * out, in], where the rows from g * out on are matrix g; rows_of [groups], with the
///          sum `rows` -> [rows, out]
/// Kinds:   as x and weight are
/// Adjoint: once differentiable; a matrix without rows gets zeros
/// Cost:    nothing moves; x is kept for backward, under autocast in the type in which it entered the product
/// Throws:  InvalidArgument for no groups, a weight that they do not divide, or where rows_of does not add up to x's rows
at::Tensor grouped_product(const at::Tensor& x, const at::Tensor& weight, const std::vector<int64_t>& rows_of);

struct GroupedLinearOptions {
  int64_t groups = 1, in_features = 0, out_features = 0;
  ParallelLinearOptions::Cut cut = ParallelLinearOptions::Cut::none;
  std::function<Split(int parts)> split = {};  ///< how the cut features are split, as in ParallelLinearOptions
  std::vector<int64_t> matrices = {};          ///< Parameter::matrices of each group; default one matrix
  std::string groups_axis = {};          ///< the axis over which the groups are split in balanced parts; "": not split
  std::optional<double> deviation = {};  ///< of the initial weights, as in ParallelLinear
  at::TensorOptions tensor = at::kFloat;
};

/// The module of grouped_product, with a weight [groups * out, in]: whole groups are split over one axis of a grid, and the
/// features of each are cut over another, as in ParallelLinear. It moves nothing, but in a fixed order, where it adds up what
/// is cut.
class GroupedLinearImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for sizes below 1, or a split that does not fit
  GroupedLinearImpl(const GroupedLinearOptions& options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& x, const fixed::GroupedRows& rows);

 private:
  at::Tensor weight_;
  std::function<Split(int parts)> split_;
  fixed::CutFeatures cut_;
};
TORCH_MODULE(GroupedLinear);

}  // namespace adjoin::nn
