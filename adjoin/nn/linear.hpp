#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/pimpl.h>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/choices.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/local_token_rows.hpp"
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
///          gradient, which go on beside the products where the group spans hosts
/// Throws:  InvalidArgument where x does not have the rows of this rank
/// Source:  Korthikanti et al., "Reducing activation recomputation in large transformer models", arXiv 2205.05198,
///          section 4.2.2
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                          const std::optional<SplitRows>& rows = {});

/// x W^T + b with W cut by outputs, so that each rank computes its own output features: Megatron's column-parallel layer.
///
/// Shape:  x [*, in] on every rank, weight [out_r, in], bias [out_r] or undefined -> [*, out_r]; with `rows` x is [rows_r, in],
///         the rank's part of them -> [rows, out_r]
/// Kinds:  replicated -> split; with rows split -> split, of rows and then of features
/// Cost:   nothing forward, all-reduce of x's gradient backward, beside the gradients of weight and bias where the group spans
///         hosts; with rows that of linear_product
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
      {};  ///< of the initial weights; default 1/sqrt(3 in_features), as in torch::nn::Linear
  /// The cut features in so many parts, one for each rank; default balanced.
  std::function<Split(int parts)> split = {};
  /// Parameter::matrices of the weight; default one matrix.
  std::optional<std::vector<int64_t>> matrices = {};
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
  at::Tensor forward(const at::Tensor& x, const LocalTokenRows& rows = {});
  /// How the cut features are split.
  const Split& split() const { return *split_; }

 private:
  ParallelLinearOptions options_;
  Communicator group_;
  std::optional<Split> split_;
  fixed::CutFeatures cut_;  // for sums in a fixed order
  at::Tensor weight_, bias_;
};
TORCH_MODULE(ParallelLinear);

/// Applies an activation to x [*, features]; swiglu halves the features.
at::Tensor activated(const at::Tensor& x, Activation activation);

/// Parameter::matrices of a weight whose outputs enter an activation: swiglu's halves have one each.
std::vector<int64_t> matrices_of(int64_t rows, Activation activation);

/// Two linear layers with an activation between them.
struct ColRowOptions {
  int64_t in_features = 0, hidden_features = 0, out_features = 0;
  bool bias = true;
  Activation activation = Activation::gelu;
  bool split_rows = false;  ///< sequence parallelism: each rank has a balanced part of the pass's rows
  double dropout = 0;       ///< after the activation
  std::string name = {};    ///< the full name, for the dropout masks
  bool is_head = false;     ///< the outputs are a model's scores
  std::optional<double> deviation = {};
  at::TensorOptions tensor = at::kFloat;
};

/// A column-parallel layer and a row-parallel one: the hidden features stay split between them.
///
/// Shape:  [*, in] -> [*, out], on every rank; where rows are split, the rank's part of the rows of the pass
/// Kinds:  replicated -> replicated, or split -> split
/// Cost:   one all-reduce of the output forward, one of the input's gradient backward; where rows are split, all-gathers and
///         reduce-scatters instead, and one all-gather more
/// Source: Shoeybi et al., arXiv 1909.08053, section 3, figure 3a; Korthikanti et al., arXiv 2205.05198
class ColRowImpl : public torch::nn::Module {
 public:
  ColRowImpl(ColRowOptions options, const Grid& grid, const std::string& axis);
  at::Tensor forward(const at::Tensor& x, const ForwardPass& pass);

 private:
  ColRowOptions options_;
  ParallelLinear column_{nullptr}, row_{nullptr};
  DropoutPlace place_;
};
TORCH_MODULE(ColRow);

/// A transformer's feed-forward layer d -> factor * d -> GELU -> d.
ColRowOptions feed_forward(int64_t hidden, int64_t factor = 4);

}  // namespace adjoin::nn
