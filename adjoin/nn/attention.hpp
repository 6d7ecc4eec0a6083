#pragma once

#include <torch/nn/pimpl.h>

#include <optional>
#include <string>

#include "adjoin/movement/step_context.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {

struct SelfAttentionOptions {
  int64_t hidden = 0, heads = 0;
  bool bias = false;
  std::optional<double> scale = {};  ///< of the scores; 1/sqrt(hidden / heads) unless given
  double dropout = 0;                ///< of the attention probabilities
  std::string name = {};             ///< the full name, for the dropout masks
  std::optional<double> deviation = {};
  at::TensorOptions tensor = at::kFloat;
};

/// Multi-head self-attention whose heads are cut over the group, balanced, uneven where they do not divide. Each row
/// attends to the rows of its own sample.
///
/// Shape:  x [rows, hidden] on every rank -> the same, of the rows that the context says
/// Kinds:  replicated -> replicated
/// Cost:   one all-reduce of the output forward, one of x's gradient backward
/// Source: Shoeybi et al., arXiv 1909.08053, section 3, figure 3b
class ParallelSelfAttentionImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument where the heads do not divide the hidden size.
  ParallelSelfAttentionImpl(SelfAttentionOptions options, const Grid& grid, const std::string& axis);
  /// Throws: InvalidArgument for a context without rows, or of others than x has
  at::Tensor forward(const at::Tensor& x, const StepContext& context);

 private:
  SelfAttentionOptions options_;
  Split heads_;
  int rank_;
  ColumnParallelLinear qkv_{nullptr};
  RowParallelLinear out_{nullptr};
};
TORCH_MODULE(ParallelSelfAttention);

}  // namespace adjoin::nn
