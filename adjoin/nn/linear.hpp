#pragma once

#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::nn {

/// Common to both linear layers. The deviation of the initial weights is
/// 1/sqrt(3 in_features) unless given, which is that of torch::nn::Linear.
struct ParallelLinearOptions {
  int64_t in_features = 0, out_features = 0;
  bool bias = true;
  std::optional<double> deviation = {};
  /// How the split features are cut (dim 0 of the weight for a column layer, 1 for a row layer); balanced unless given.
  std::optional<Split> split = {};
  /// Column layers: whether the output is gathered, so that every rank has all of it.
  bool gather_output = false;
  /// Sequence parallelism: a column layer's input and a row layer's output are rows of which each rank has a balanced part.
  bool split_rows = false;
  at::TensorOptions tensor = at::kFloat;
};

/// x W^T + b with W cut by rows, so that each rank computes its own output features.
///
/// Shape:  x [*, in] on every rank, weight [out_r, in], bias [out_r] -> [*, out_r], or [*, out] if gathered
/// Kinds:  replicated -> split, or replicated if gathered
/// Cost:   nothing forward (all-gather of the output if gathered); all-reduce of x's gradient backward
/// Source: Shoeybi et al., arXiv 1909.08053, section 3
at::Tensor column_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  const Communicator& group, const std::optional<Split>& gathered_split = {});

/// x W^T + b with W cut by columns, for an x that is split by features: the ranks' products are summed.
///
/// Shape:  x [*, in_r], weight [out, in_r], bias [out] -> [*, out] on every rank
/// Kinds:  split -> replicated
/// Cost:   all-reduce of the output forward, nothing backward
/// Source: Shoeybi et al., arXiv 1909.08053, section 3
at::Tensor row_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const Communicator& group);

/// The same with a reduce-scatter, which leaves each rank its part of the rows.
///
/// Shape:   x [rows, in_r], weight [out, in_r], bias [out] -> [rows_r, out] with rows.size(rank) rows
/// Kinds:   split -> split, of features and then of rows; the bias is copied
/// Cost:    a reduce-scatter of the output forward, an all-gather of its gradient backward
/// Source:  Korthikanti et al., arXiv 2205.05198, section 4.2.2
at::Tensor row_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const Communicator& group, const Split& rows);

/// How the output features of several layers are cut whose weights are stacked in one: each rank has its part of the first,
/// of the second, and so on, one behind another. The global weight does not depend on the number of ranks.
/// Throws: InvalidArgument for none, or splits of different numbers of parts
Split stacked(const std::vector<Split>& splits);

/// The module of column_parallel_linear, cut over one axis of a grid; of gathered_linear where rows are split.
class ColumnParallelLinearImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for features below 1 or a split that does not fit them and the group.
  ColumnParallelLinearImpl(ParallelLinearOptions options, const Grid& grid, const std::string& axis);
  /// `rows`: how many the ranks' x have together, where they are split.
  at::Tensor forward(const at::Tensor& x, std::optional<int64_t> rows = {});
  const Split& split() const { return *options_.split; }

 private:
  ParallelLinearOptions options_;
  Communicator group_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(ColumnParallelLinear);

/// The module of row_parallel_linear, cut over one axis of a grid.
class RowParallelLinearImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for features below 1 or a split that does not fit them and the group.
  RowParallelLinearImpl(ParallelLinearOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& x);

 private:
  ParallelLinearOptions options_;
  Communicator group_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(RowParallelLinear);

}  // namespace adjoin::nn
