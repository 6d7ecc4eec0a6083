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
  int64_t key_heads = 0;  ///< key and value heads, each shared by the same number of query heads; 0: as many as `heads`
  int64_t head_size = 0;  ///< features of a head; 0: hidden / heads
  bool qkv_bias = false, out_bias = false;
  std::optional<double> scale = {};          ///< of the scores; default 1/sqrt(head size)
  bool causal = false;                       ///< a row does not attend to later tokens
  std::optional<RotaryOptions> rotary = {};  ///< rotary positions: queries and keys are turned by position
  double dropout = 0;                        ///< of the attention probabilities
  bool split_rows = false;                   ///< sequence parallelism: each rank has a balanced part of the pass's rows
  /// Context parallelism: the axis of the grid over whose ranks the pass's rows are split; "": each rank has whole samples.
  std::string rows_axis = {};
  AttentionMethod method = AttentionMethod::ring;  ///< how those ranks exchange keys and values
  bool recompute = false;                          ///< computes what is between the two linear layers again in backward
  std::string name = {};                           ///< the full name, for the dropout masks
  std::optional<double> deviation = {};
  at::TensorOptions tensor = at::kFloat;
};

/// Multi-head self-attention. The key heads are split over the group, each together with the query heads that share it:
/// balanced, and uneven where they do not divide. Each row attends to the rows of its own sample. Queries, keys and values have
/// one common weight: all queries, then all keys, then all values.
///
/// Shape:  x [rows, hidden] on every rank -> the same shape; the pass says which rows. Where rows are split over the group, a
///         rank has its part of them
/// Kinds:  replicated -> replicated, or split -> split
/// Cost:   that of ColRow, plus that of nn::attention over the axis of rows
/// Source: Shoeybi et al., arXiv 1909.08053, section 3, figure 3b; Ainslie et al., "GQA", arXiv 2305.13245
class ParallelSelfAttentionImpl : public torch::nn::Module {
 public:
  /// Throws: InvalidArgument where the heads do not divide the hidden size and no head size is given, where the key heads do
  ///         not divide the query heads, and for rotary positions with an odd head size or a base not above 0
  ParallelSelfAttentionImpl(SelfAttentionOptions options, const Grid& grid, const std::string& axis);
  /// A cache requires a causal layer outside of training. The rows are then the next tokens, after those in the cache, of one
  /// sample (`TokenRows` of two workers describe this: the first worker has the earlier tokens). They attend to the cached tokens
  /// too, and are added to the cache.
  /// Throws: InvalidArgument for a pass without rows, for rows that are not those of x, or that are not the next ones after the
  ///         cache
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
