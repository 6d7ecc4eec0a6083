#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/movement/staging.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin {

/// The sum over the group, without autograd; x itself where the group is this rank alone.
at::Tensor sum(const at::Tensor& x, const Communicator& group);

/// Lets each rank of the group use `x` for its own part of the work; Megatron's f.
///
/// Shape:   any, the same on every rank
/// Kinds:   replicated -> copied
/// Adjoint: all-reduce of the gradients
/// Cost:    nothing forward; 2(P-1)/P of x backward
/// Source:  Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3
at::Tensor copy_to(const at::Tensor& x, const Communicator& group, CallSite::Where where = CallSite::Where::current());

/// Sums `x` over the group; Megatron's g.
///
/// Shape:   any, the same on every rank
/// Kinds:   partial -> replicated
/// Adjoint: nothing moves
/// Cost:    2(P-1)/P of x forward, nothing backward
at::Tensor reduce_from(const at::Tensor& x, const Communicator& group,
                       CallSite::Where where = CallSite::Where::current());

/// Sums `x` over the workers along the axes of the grid; each uses its copy of the sum for its own part of the work.
///
/// Shape:   any, the same on every worker of a group along the axes
/// Kinds:   partial -> copied
/// Adjoint: itself
/// Cost:    2(P-1)/P of x each way
at::Tensor all_sum_reduce(const at::Tensor& x, const Grid& grid, const std::vector<std::string>& axes,
                          CallSite::Where where = CallSite::Where::current());

/// The same over a given group.
at::Tensor all_sum_reduce(const at::Tensor& x, const Communicator& group,
                          CallSite::Where where = CallSite::Where::current());

// The work of the four movements below, without autograd: split.dim() is the dim that is cut.

/// Rank `part`'s block of a whole tensor; a view where the block is one range.
at::Tensor take_block(const at::Tensor& whole, const Split& split, int part);
/// Memory for blocks that are in another order than in the whole tensor, and for a contiguous copy of a tensor that is
/// not.
struct BlockStaging {
  Staging blocks, contiguous;
};
/// The whole tensor from the blocks of all ranks.
at::Tensor join_blocks(const at::Tensor& block, const Communicator& group, const Split& split, BlockStaging& staging);
/// This rank's block of the sum of all ranks' whole tensors.
at::Tensor sum_blocks(const at::Tensor& whole, const Communicator& group, const Split& split, BlockStaging& staging);

/// Makes the whole tensor from the ranks' blocks; all ranks then do the same with it.
///
/// Shape:   [*, N_r, *] with N_r = split.size(rank) -> [*, N, *]
/// Kinds:   split -> replicated
/// Adjoint: each rank takes its own block
/// Cost:    (P-1)/P of the result forward, nothing backward
/// Throws:  InvalidArgument where the split does not fit x or the group
at::Tensor gather_from(const at::Tensor& x, const Communicator& group, const Split& split,
                       CallSite::Where where = CallSite::Where::current());

/// Gives each rank its own block of a tensor that all ranks hold: the adjoint of gather_from.
///
/// Shape:   [*, N, *] -> [*, N_r, *]
/// Kinds:   replicated -> split
/// Adjoint: all-gather
/// Cost:    nothing forward, (P-1)/P of x backward
/// Throws:  InvalidArgument where the split does not fit x or the group
at::Tensor scatter_to(const at::Tensor& x, const Communicator& group, const Split& split,
                      CallSite::Where where = CallSite::Where::current());

/// Makes the whole tensor from the ranks' blocks; each rank then uses it for its own part of the work.
///
/// Shape:   [*, N_r, *] -> [*, N, *]
/// Kinds:   split -> copied
/// Adjoint: reduce_scatter
/// Cost:    (P-1)/P of the whole each way
/// Throws:  InvalidArgument where the split does not fit x or the group
at::Tensor all_gather(const at::Tensor& x, const Communicator& group, const Split& split,
                      CallSite::Where where = CallSite::Where::current());

/// Sums `x` over the group and gives each rank its own block along the split's dim.
///
/// Shape:   [*, N, *] on every rank -> [*, N_r, *]
/// Kinds:   partial -> split
/// Adjoint: all_gather
/// Cost:    (P-1)/P of x each way
/// Throws:  InvalidArgument where the split does not fit x or the group
at::Tensor reduce_scatter(const at::Tensor& x, const Communicator& group, const Split& split,
                          CallSite::Where where = CallSite::Where::current());

}  // namespace adjoin
