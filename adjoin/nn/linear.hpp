#pragma once

#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/local_rows.hpp"

namespace adjoin::nn {

/// x W^T + b with W cut by outputs, so that each rank computes its own output features: Megatron's column-parallel layer.
///
/// Shape:  x [*, in] on every rank, weight [out_r, in], bias [out_r] or undefined -> [*, out_r]; with `rows` x is [rows_r, in],
///         the rank's part of them -> [rows, out_r]
/// Kinds:  replicated -> split; with rows split -> split, of rows and then of features
/// Cost:   nothing forward, all-reduce of x's gradient backward; with rows that of linear_product
/// Source: Shoeybi et al., arXiv 1909.08053, section 3; Korthikanti et al., arXiv 2205.05198, section 4.2.2
at::Tensor column_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  const Communicator& group, const std::optional<Split>& rows = {});

/// x W^T + b with W cut by inputs, for an x that is split by features: the ranks' products are summed. Megatron's
/// row-parallel layer.
///
/// Shape:  x [*, in_r], weight [out, in_r], bias [out] or undefined -> [*, out] on every rank; with `rows` -> [rows_r, out],
///         the rank's part of them
/// Kinds:  split -> replicated; with rows split -> split, of features and then of rows, and the bias is copied
/// Cost:   all-reduce of the output forward, nothing backward; with rows a reduce-scatter, and backward an all-gather
/// Source: as column_parallel_linear
at::Tensor row_parallel_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                               const Communicator& group, const std::optional<Split>& rows = {});

/// How the output features are cut where the weights of several layers are stacked in one: each rank has its part of the first
/// layer, then its part of the second, and so on. The global weight does not depend on the number of ranks.
/// Throws: InvalidArgument for no splits, or splits with different numbers of parts
Split stacked(const std::vector<Split>& splits);

struct ParallelLinearOptions {
  /// Which features are cut over the axis. Megatron calls a layer with cut outputs column-parallel, and one with cut inputs
  /// row-parallel.
  enum class Cut : uint8_t { none, outputs, inputs };
  int64_t in_features = 0, out_features = 0;
  Cut cut = Cut::none;
  bool bias = true;
  std::optional<double> deviation =
      {};                           ///< of the initial weights; default 1/sqrt(3 in_features), as in torch::nn::Linear
  std::optional<Split> split = {};  ///< how the cut features are split; default balanced
  /// Sequence parallelism: each rank has a balanced part of the rows, of the input's where outputs are cut, of the output's
  /// where inputs are cut.
  bool split_rows = false;
  at::TensorOptions tensor = at::kFloat;
};

/// The module of column_parallel_linear or row_parallel_linear, as its options say, over one axis of a grid. Where nothing is
/// cut it is x W^T + b, with a weight that every rank has.
class ParallelLinearImpl : public ShardedModule {
 public:
  /// Throws: InvalidArgument for features below 1 or a split that does not fit them and the group.
  ParallelLinearImpl(ParallelLinearOptions options, const Grid& grid, const std::string& axis);
  /// `rows`: the rows of the pass.
  /// Throws: InvalidArgument without rows where outputs are cut and rows split
  at::Tensor forward(const at::Tensor& x, const LocalRows& rows = {});
  /// How the cut features are split.
  const Split& split() const { return *options_.split; }

 private:
  ParallelLinearOptions options_;
  Communicator group_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(ParallelLinear);

}  // namespace adjoin::nn
