#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/nn/choices.hpp"
#include "adjoin/partition/token_rows.hpp"

namespace adjoin::nn {

/// Which scores of a sample are hidden: bool [queries, keys] for ranges of its tokens, true where a score is hidden; an
/// undefined tensor hides none. It is called for blocks, in forward and in backward, and must give the same answer both times.
using AttentionMask = std::function<at::Tensor(int64_t sample, Range queries, Range keys)>;

struct AttentionOptions {
  AttentionMethod method = AttentionMethod::ring;
  std::optional<double> scale = {};  ///< of the scores; default 1/sqrt(size of a query head)
  bool causal = false;               ///< hides the keys of tokens later than the query's
  AttentionMask mask = {};
  double dropout = 0;      ///< of the probabilities, to the nearest 1/65536; only in training (step.training)
  std::string name = {};   ///< the layer's full name, for the dropout masks
  int64_t first_head = 0;  ///< place of the first query head here among all query heads, where the heads are split
  Step step = {};          ///< for the masks; its first_sample is the place of sample 0 in the global batch
  /// Of each sample's tokens, whose scores are computed apart and merged as a tree, so that their bits depend neither on other
  /// samples nor on threads or workers; 0: in any order. Set where FixedOrder is.
  int64_t blocks = 0;

  bool drops() const { return step.training && dropout > 0; }
  bool in_order() const { return blocks > 0; }
};

/// Each row attends to the rows of its own sample; these may be on any workers of the group.
///
/// With h heads of keys and values, the number of query heads is a multiple of h: query head i uses key head i h / heads. A row
/// whose keys are all hidden gets zeros. Dropout masks depend on sample, head, query and key, as in ParallelSelfAttention, so
/// they are the same for every method and every number of workers.
///
/// Shape:   q [rows, heads, size], k [rows, h, size], v [rows, h, value size] -> [rows, heads, value size], with
///          rows.size(rank) rows
/// Kinds:   split, split, split -> split
/// Adjoint: once differentiable; every worker of the group calls backward. The ring computes the scores again
/// Cost:    each way and for each rank, with P ranks: ring: the others' k and v, received in P - 1 messages from the previous
///          rank; backward also their gradients, in P messages. Memory: k and v of two workers, and backward their gradients.
///          gathered: all-gathers k and v; memory: heads x rows x the lengths of their samples, about four times.
///          ulysses: an exchange of (P-1)/P of q, k, v and the result; memory: all rows of a P-th of the heads.
///          Masks and dropout work in blocks of 512 x 512 tokens.
/// Throws:  InvalidArgument on all ranks: for rows that do not fit the group or a dropout outside [0, 1); in checked mode also
///          for head sizes, heads, types, options, rows or requires_grad that differ between ranks (an all-gather of 8 bytes a
///          rank compares them).
///          On one rank, whose error the other ranks report as their cause: for tensors that do not have the shapes above and one
///          floating-point type, or a mask's answer of another shape or type.
/// Source:  Liu et al., "Ring attention", arXiv 2310.01889; Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                     const Communicator& group, const AttentionOptions& options = {});

/// The mask of one worker's rows as a tensor, for `ring` and `gathered`.
///
/// Shape:  hidden [rows.size(rank), rows.size()] or with a leading dim of 1, of bool; columns in the order of the samples
/// Throws: InvalidArgument for a tensor of another shape or type
AttentionMask mask_of_rows(const at::Tensor& hidden, const TokenRows& rows, int rank);

}  // namespace adjoin::nn
