#pragma once

#include <torch/nn/pimpl.h>

#include <optional>
#include <string>

#include "adjoin/nn/linear.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

struct DotProductAttentionOptions {
  int64_t key_dim = 0;
  std::optional<int64_t> value_dim = {}, query_dim = {};  ///< default: key_dim
  int64_t num_heads = 1;
  bool add_bias = false;              ///< in all four linear layers
  std::optional<int64_t> chunk = 32;  ///< chunk of the products, as in linalg::matmul_nt; none: 32 MiB a round
  bool distributed = true;            ///< false: each worker computes alone, on sequences that it holds whole
  at::TensorOptions tensor = at::kFloat;
};

/// Attention over T rows that are split over the workers along an axis of the grid: the module of the Python package
/// distributed-dot-product. Its keys index the rows of the scores, its queries the columns. The softmax goes over the columns,
/// so it weights the values, which belong to the queries.
///
/// The parameters (keys, queries, values, composition; each a weight and, with add_bias, a bias) are copied along every axis:
/// each worker uses them for its own rows, and parallel::sum_gradients sums their gradients. They are the same with and without
/// `distributed`.
///
/// Shape:  keys [*, T_i, key_dim], queries [*, T_i, query_dim], values [*, T_i, value_dim] with any leading dims `*`; mask,
///         bool, [1, T_i, T] or with the leading dims, true where a score is hidden; undefined hides none -> [*, T_i,
///         value_dim]. Where all scores of a row are hidden, its attention is zeros, before the composition
/// Kinds:  split -> split
/// Cost:   the scores, [*, heads, T_i, T], are kept; one matmul_nt and one matmul_nn forward, and their gradients backward
/// Source: github.com/andfoy/distributed-dot-product; Vaswani et al., arXiv 1706.03762, section 3.2
class DistributedDotProductAttentionImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument for dims, heads or a chunk below 1, or heads that do not divide key_dim and value_dim.
  DistributedDotProductAttentionImpl(const DotProductAttentionOptions& options, const Grid& grid,
                                     const std::string& axis);

  /// `rows` is how the T rows are split over the axis; it has one part where the module is not distributed.
  /// Throws: InvalidArgument as matmul_nt, and for tensors or a mask that are not as above: then on one worker, whose error the
  ///         others report as their cause.
  at::Tensor forward(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& values,
                     const at::Tensor& mask, const Split& rows);

  const DotProductAttentionOptions options;

 private:
  void check(const at::Tensor& keys, const at::Tensor& queries, const at::Tensor& values, const at::Tensor& mask,
             const Split& rows) const;

  Communicator group_;
  ParallelLinear keys_{nullptr}, queries_{nullptr}, values_{nullptr}, composition_{nullptr};
};
TORCH_MODULE(DistributedDotProductAttention);

}  // namespace adjoin::nn
