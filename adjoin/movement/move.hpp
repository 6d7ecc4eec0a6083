#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "adjoin/comm/call_site.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin {

/// A move from one layout to another, prepared: it keeps its plan, its communicators and its staging, and allocates no
/// tensor but its result when it is used again (a tensor that is not contiguous is copied once more where a collective
/// carries it). Copies share all that; one use at a time.
class Move {
 public:
  /// `grid` gives the world, whose ranks the layouts' grids name, and keeps the groups. Made by all workers of either
  /// layout in the same order; finds its groups without talking, and makes those that are new.
  /// Throws: InvalidArgument as check_move, or where the world has not all ranks of a layout's grid
  Move(Layout from, Layout to, const Grid& grid);

  /// Shape:  from.shape_on(rank) -> to.shape_on(rank); outside a layout's grid any zero-volume tensor -> [0]
  /// Throws: InvalidArgument on the worker whose x is not shaped like that
  at::Tensor operator()(const at::Tensor& x, CallSite::Where where = CallSite::Where::current()) const;

  /// The same with as much of `fill` around it as `pads` says of each dim, written once where boxes are exchanged.
  /// Adjoint: that of the move, of what lies within
  at::Tensor padded(const at::Tensor& x, const std::vector<Pads>& pads, double fill) const;

  const Layout& from() const;
  const Layout& to() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Moves a tensor from one layout to another, on the same workers or others: every element goes to whoever wants it.
///
/// Differentiable to any order. A worker that is in neither grid need not call. Where nothing moves the result may be x
/// or a view of it.
/// Shape:   from.shape_on(rank) -> to.shape_on(rank); outside a layout's grid any zero-volume tensor -> [0]
/// Kinds:   split, replicated, partial -> split, replicated, copied; an axis that is copied, or partial, in both stays
///          so, and its coordinates never mix. A covering split in `to` is copied to all that want an element; in
///          `from` what lies in several parts is summed, and what lies in none is zero.
/// Adjoint: move(dual(to), dual(from))
/// Cost:    that of the collective where kind_of_move names one, else of one message a box; the result, and where boxes
///          are summed those of one summand (for 16-bit floats, the result in float32), or where a collective's blocks
///          are put in another order, one result more
/// Throws:  InvalidArgument as Move
/// Source:  Hewett and Grady, "A linear algebraic approach to model parallelism in deep learning", arXiv 2006.03108
at::Tensor move(const at::Tensor& x, const Layout& from, const Layout& to, const Grid& grid,
                CallSite::Where where = CallSite::Where::current());

/// Cuts a tensor that is split over a group in another way.
///
/// Shape:   x of `from`, which cuts dim from.dim() -> of `to`
/// Kinds:   split -> split
/// Adjoint: all_to_all(to, from)
/// Cost:    (P-1)/P of the rank's piece each way, a message a box; makes no group
/// Throws:  InvalidArgument as Move
at::Tensor all_to_all(const at::Tensor& x, const Communicator& group, const Split& from, const Split& to,
                      CallSite::Where where = CallSite::Where::current());

/// Copies each worker's piece along the axes on which `to` has workers and the layout's grid one or none.
/// Kinds:   a tensor of the layout -> copied along the new axes of `to`, else as it was
/// Adjoint: sum_reduce
at::Tensor broadcast(const at::Tensor& x, const Layout& from, const GridShape& to, const Grid& grid,
                     CallSite::Where where = CallSite::Where::current());

/// Sums the workers' tensors along the axes on which `from` has workers and the layout's grid one or none.
/// Kinds:   partial along the axes that go, else as `to` -> a tensor of the layout `to`
/// Adjoint: broadcast
at::Tensor sum_reduce(const at::Tensor& x, const GridShape& from, const Layout& to, const Grid& grid,
                      CallSite::Where where = CallSite::Where::current());

}  // namespace adjoin
