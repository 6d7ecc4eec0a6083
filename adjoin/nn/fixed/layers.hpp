#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/partition/sum_tree.hpp"

namespace adjoin::nn::fixed {

// The parts of layers that add something up, in the order that a pass keeps (FixedOrder): each gives the same bits in every layout.
// For float32, and bfloat16 under autocast; once differentiable.

/// How features are cut over ranks: Split::balanced, and in a fixed order so that each rank holds whole parts of them.
Split cut_features(int64_t features, int ranks, int64_t dim, int64_t unit = 1);

/// Features that a product adds over, and which are cut over the ranks of a group.
struct CutFeatures {
  enum class In : uint8_t { none, forward, backward };
  In in = In::none;  ///< forward: the features of x are cut; backward: those of the result
  std::shared_ptr<const WholeParts> parts = {};
  Communicator group = {};

  /// Finds the parts again where the order has another number of them than at the last call; `into` divides the features into so
  /// many, and gives the ranks' own cut too.
  /// Throws: InvalidArgument as WholeParts
  void divide(const FixedOrder& order, const std::function<Split(int parts)>& into, const std::string& what);
};

/// The sum of `of_part` over the parts of cut features and their ranks, of a shape; with rows this rank's rows of it. `of_part` gets
/// this rank's features of a part, one part after the other.
/// Cost: all_reduce_nodes, or reduce_scatter_nodes
at::Tensor sum_over_parts(const WholeParts& parts, const Communicator& group, const std::optional<Split>& rows,
                          const std::vector<int64_t>& shape, const at::TensorOptions& options,
                          const std::function<at::Tensor(const std::vector<Range>& features)>& of_part);

/// Rows that are sorted by groups (experts).
struct GroupedRows {
  /// Where the rows of each source rank, its leaf (Leaf::number) and group are.
  using OfSources = std::vector<std::vector<std::vector<Range>>>;

  std::vector<int64_t> of_group;  ///< how many
  /// None where a pass has no backward.
  std::shared_ptr<const OfSources> sources = {};
};

/// [groups * out, in] -> [groups, out, in]
at::Tensor by_group(const at::Tensor& weight, size_t groups);
/// Each group's rows of a [rows, n] times its matrix of b [groups, n, m], which `into` writes to its rows of the result.
at::Tensor products_of_groups(const at::Tensor& a, const at::Tensor& b, const std::vector<int64_t>& rows_of,
                              void (*into)(at::Tensor out, const at::Tensor& a, const at::Tensor& b));
/// [*, features] -> [rows, features]
at::Tensor as_matrix(const at::Tensor& x);

/// x W^T + b, in the type of x, whose sum over cut features is a tree over their parts and ranks: forward, or for the gradient of x.
/// Where the ranks of the cut have each some of the rows between layers, `rows` is how: x's are cut where features are cut in
/// backward, the result's where they are cut forward, both where none are cut.
/// With groups it is X_g W_g^T for the rows of each group g, and the gradient of the weight is added to the lanes of each source's rows.
/// Shape: x [*, in_r], weight [out_r, in_r] or [groups * out_r, in_r], bias [out_r] or undefined -> [*, out_r]
/// Cost:  nothing where features are not cut; else all_reduce_nodes of the result, or of x's gradient; with rows a
///        reduce_scatter_nodes instead, and an all-gather of the other, and of x again in backward
at::Tensor linear(const std::shared_ptr<const FixedOrder>& order, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias, const CutFeatures& cut, const std::optional<Split>& rows = {},
                  const std::optional<GroupedRows>& groups = {});

/// x w + b for each row of x [rows, features]; w and b [features], b may be undefined. The ranks of a group have each some of the
/// micro-batch's tokens, cut as by rows_of_ranks.
/// Cost: in backward an all-gather of a row for each block of rows (FixedOrder::blocks_of), for w and for b
at::Tensor scaled(const std::shared_ptr<const FixedOrder>& order, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias, const Communicator& group);

/// The rows of a table [words, features] that ids name. Shape: ids [rows] int64 -> [rows, features]
at::Tensor look_up(const std::shared_ptr<const FixedOrder>& order, const at::Tensor& weight, const at::Tensor& ids);

/// One of LibTorch's activations: "gelu", "gelu_tanh", "silu".
enum class Curve : uint8_t { gelu, gelu_tanh, silu };
at::Tensor activated(const at::Tensor& x, Curve curve);

/// The sum of losses, in float64: each is rounded to a multiple of 2^-bits, so that sums below 2^(53 - bits) are exact and have no
/// order. An infinite or NaN loss stays one.
at::Tensor sum_of_losses(const at::Tensor& losses, int bits = 24);

/// softmax along dim 1 whose gradient has the same bits for any number of rows and threads, unlike LibTorch's.
at::Tensor softmax_of_rows(const at::Tensor& x);

}  // namespace adjoin::nn::fixed
