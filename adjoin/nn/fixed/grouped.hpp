#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "adjoin/nn/fixed/layers.hpp"

namespace adjoin::nn::fixed {

/// The rows of groups (experts) that came from one rank: which of its leaves, and where the rows of each leaf and group are.
struct RowsOfSource {
  std::vector<int64_t> leaves;           ///< their numbers (Leaf), in order
  std::vector<std::vector<Range>> rows;  ///< for each leaf: of each group
};

/// Rows that are sorted by groups.
struct GroupedRows {
  std::vector<int64_t> of_group;  ///< how many
  /// None where a pass has no backward.
  std::shared_ptr<const std::vector<RowsOfSource>> sources = {};
};

/// X_g W_g^T for each group g, whose sum over cut features is a tree over their parts and ranks, as in fixed::linear. The gradient
/// of the weight is added to the lanes of each source's rows.
/// Shape: x [rows, in_r], weight [groups * out_r, in_r] -> [rows, out_r]
/// Cost:  nothing where features are not cut; else all_reduce_nodes of the result, or of x's gradient
at::Tensor grouped(const std::shared_ptr<const FixedOrder>& order, const at::Tensor& x, const at::Tensor& weight,
                   const GroupedRows& rows, const CutFeatures& cut);

/// softmax along dim 1 whose gradient has the same bits for any number of rows and threads, unlike LibTorch's.
at::Tensor softmax_of_rows(const at::Tensor& x);

}  // namespace adjoin::nn::fixed
