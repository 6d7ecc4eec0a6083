#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"
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

/// copy_to for the layer that alone uses the copy, and whose backward has the copy's gradient before it is done: begin() then
/// begins the adjoint's sum, in the gradient's own memory, and the adjoint waits for it. So the sum goes on beside the gradients
/// of the layer's weights where the group spans hosts; elsewhere it is carried out in the adjoint.
class CopyForLayer {
 public:
  CopyForLayer(const at::Tensor& x, const Communicator& group, CallSite::Where where = CallSite::Where::current());

  const at::Tensor& copy() const { return copy_; }
  /// What the layer saves for backward and calls there with a gradient that it owns, and then returns.
  std::function<void(const at::Tensor&)> begin() const;

 private:
  struct Adjoint;
  std::weak_ptr<Adjoint> adjoint_;  // belongs to the movement: none where x requires no gradient
  at::Tensor copy_;
};

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
/// The whole tensor from the blocks of all ranks.
at::Tensor join_blocks(const at::Tensor& block, const Communicator& group, const Split& split);
/// This rank's block of the sum of all ranks' whole tensors.
at::Tensor sum_blocks(const at::Tensor& whole, const Communicator& group, const Split& split);

/// What join_blocks or sum_blocks returns, begun before it is needed.
class BegunBlocks {
 public:
  /// Waits for it; called once.
  at::Tensor result();

  static BegunBlocks of_join(const at::Tensor& block, const Communicator& group, const Split& split);
  static BegunBlocks of_sum(const at::Tensor& whole, const Communicator& group, const Split& split);

 private:
  std::function<at::Tensor()> result_;  // keeps what belongs to the call, and so is destroyed after it
  std::unique_ptr<Pending> call_;
};

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
