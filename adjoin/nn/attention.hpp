#pragma once

#include <torch/nn/pimpl.h>

#include <optional>
#include <string>

#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/positions.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/nn/sequence/key_value_cache.hpp"

namespace adjoin::nn {

struct SelfAttentionOptions {
  int64_t hidden = 0, heads = 0;
  int64_t key_heads = 0;  ///< heads of keys and values, which equally many heads of queries share; 0: as many as heads
  int64_t head_size = 0;  ///< features of a head; 0: hidden / heads
  bool qkv_bias = false, out_bias = false;
  std::optional<double> scale = {};          ///< of the scores; 1/sqrt(head size) unless given
  bool causal = false;                       ///< a row does not attend to later tokens
  std::optional<RotaryOptions> rotary = {};  ///< positions by turning queries and keys
  double dropout = 0;                        ///< of the attention probabilities
  bool split_rows = false;                   ///< sequence parallelism: each rank has a balanced part of the pass's rows
  /// Context parallelism: the grid's axis over whose ranks the pass's rows are split; "": each has whole samples.
  std::string rows_axis = {};
  AttentionMethod method = AttentionMethod::ring;  ///< how those ranks come by each other's keys and values
  bool recompute = false;                          ///< what lies between the two linear layers, in backward
  std::string name = {};                           ///< the full name, for the dropout masks
  std::optional<double> deviation = {};
  at::TensorOptions tensor = at::kFloat;
};

/// Multi-head self-attention whose heads of keys are cut over the group, balanced, uneven where they do not divide, with
/// the heads of queries that share them. Each row attends to the rows of its own sample. The weight of queries, keys and
/// values is one, all queries before all keys.
///
/// Shape:  x [rows, hidden] on every rank -> the same, of the rows that the pass says; where rows are split over the
///         group, the rank's part of them
/// Kinds:  replicated -> replicated, or split -> split
/// Cost:   as ColRow, and over the axis of rows that of nn::attention
/// Source: Shoeybi et al., arXiv 1909.08053, section 3, figure 3b; Ainslie et al., "GQA", arXiv 2305.13245
class ParallelSelfAttentionImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument where the heads do not divide the hidden size and no head size is given, or the heads of keys
  ///         those of queries, and for rotary positions of an odd head size or a base that is not above 0
  ParallelSelfAttentionImpl(SelfAttentionOptions options, const Grid& grid, const std::string& axis);
  /// With a cache, which wants a causal layer and no training, the rows are the tokens behind those that it holds, of one
  /// sample (`Rows` of two workers say so: the first has the earlier tokens); they attend to these too, and are added.
  /// Throws: InvalidArgument for a pass without rows, or with others than x has, or than come next in the cache
  at::Tensor forward(const at::Tensor& x, const ForwardPass& pass, KeyValueCache* cache = nullptr);

 private:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const ForwardPass& pass,
                    KeyValueCache* cache) const;

  SelfAttentionOptions options_;
  Split key_heads_;
  int rank_;
  Communicator of_rows_;  // who has the other rows of the samples
  ParallelLinear qkv_{nullptr}, out_{nullptr};
};
TORCH_MODULE(ParallelSelfAttention);

}  // namespace adjoin::nn
