#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/partition/grid.hpp"

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

}  // namespace adjoin
