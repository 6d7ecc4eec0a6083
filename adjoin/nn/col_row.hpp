#pragma once

#include "adjoin/nn/choices.hpp"
#include "adjoin/nn/dropout.hpp"
#include "adjoin/nn/linear.hpp"

namespace adjoin::nn {

/// Applies an activation to x [*, features]; swiglu halves the features.
at::Tensor activated(const at::Tensor& x, Activation activation);

/// Two linear layers with an activation between them.
struct ColRowOptions {
  int64_t in_features = 0, hidden_features = 0, out_features = 0;
  bool bias = true;
  Activation activation = Activation::gelu;
  bool split_rows = false;  ///< sequence parallelism: each rank has a balanced part of the pass's rows
  double dropout = 0;       ///< after the activation
  std::string name = {};    ///< the full name, for the dropout masks
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
