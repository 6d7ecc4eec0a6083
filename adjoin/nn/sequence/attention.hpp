#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/partition/rows.hpp"

namespace adjoin::nn {

/// How the workers come by each other's keys and values.
enum class AttentionMethod : uint8_t {
  ring,      ///< they travel round; a worker's memory grows with its own rows
  gathered,  ///< each worker gets all keys and values, and keeps its rows of each sample's scores
  ulysses,   ///< each worker has all rows of some of the heads, in between
};

/// Which scores of a sample are hidden: bool [queries, keys] for ranges of its tokens, true where one is hidden; an undefined
/// tensor hides none. It is asked for blocks, forward and backward, and must answer alike.
using AttentionMask = std::function<at::Tensor(int64_t sample, Range queries, Range keys)>;

struct AttentionOptions {
  AttentionMethod method = AttentionMethod::ring;
  std::optional<double> scale = {};  ///< of the scores; 1/sqrt(size of a query's head) unless given
  bool causal = false;               ///< hides the keys of later tokens than the query's
  AttentionMask mask = {};
  double dropout = 0;      ///< of the probabilities, to the nearest 1/65536; only where step.training
  std::string name = {};   ///< the layer's full name, for the dropout masks
  int64_t first_head = 0;  ///< place among all heads of the first of the queries' that is here, where a group has some
  Step step = {};          ///< of the masks; its first_sample is the place in the global batch of sample 0

  bool drops() const { return step.training && dropout > 0; }
};

/// Each row's attention to the rows of its own sample, which lie on all workers of the group.
///
/// With h heads of keys and values there are a multiple of h heads of queries: head i of the queries goes with head
/// i h / heads of the others. What a mask hides whole gets zeros. Dropout masks follow from sample, head, query and key, as
/// those of ParallelSelfAttention: every method, and every number of workers, draws the same.
///
/// Shape:   q [rows, heads, size], k [rows, h, size], v [rows, h, value size] -> [rows, heads, value size], with
///          rows.size(rank) rows
/// Kinds:   split, split, split -> split
/// Adjoint: once differentiable; every worker of the group calls backward. The ring computes the scores again
/// Cost:    each way and for each rank, with P ranks: ring: the others' k and v, received in P - 1 messages from the one
///          before; backward also their gradients, P times. Memory: two workers' k and v, and backward gradients.
///          gathered: all-gathers k and v; memory: heads x rows x their samples' lengths, about four times.
///          ulysses: an exchange of (P-1)/P of q, k, v and the result; memory: all rows of a P-th of the heads.
///          A mask is asked for, and dropout works, in blocks of 512 x 512 tokens.
/// Throws:  InvalidArgument on all ranks: rows that do not fit the group, a dropout outside [0, 1); in checked mode also head
///          sizes, heads, types, options, rows or needs of a gradient that differ between ranks (compared by an all-gather
///          of 8 bytes a rank).
///          On one rank, and so as the others' first cause: tensors not of the shapes above, of one floating type, on
///          the CPU, or a mask's answer of another shape or type.
/// Source:  Liu et al., "Ring attention", arXiv 2310.01889; Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                     const Communicator& group, const AttentionOptions& options = {});

/// The mask of one worker's rows as a tensor, for `ring` and `gathered`.
///
/// Shape:  hidden [rows.size(rank), rows.size()] or with a leading dim of 1, of bool; columns in the order of the samples
/// Throws: InvalidArgument for a tensor that is not so
AttentionMask mask_of_rows(const at::Tensor& hidden, const Rows& rows, int rank);

}  // namespace adjoin::nn
