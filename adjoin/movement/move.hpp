#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin {

/// A prepared move from one layout to another: it keeps its plan and its communicators, which copies share; one use at a time.
/// A use allocates its result; where blocks are summed or are in another order than in the whole tensor, or a collective carries a
/// tensor that is not contiguous, also a copy of them until it ends.
class Move {
 public:
  /// `grid` gives the world, whose ranks the layouts' grids refer to, and keeps the groups. Constructed by all workers
  /// of either layout in the same order; finds existing groups without communication, and makes those that are new.
  /// Throws: InvalidArgument as check_move, or where the world lacks a rank of a layout's grid
  Move(Layout from, Layout to, const Grid& grid);

  /// Shape:  from.shape_on(rank) -> to.shape_on(rank); outside a layout's grid any zero-volume tensor -> [0]
  /// Throws: InvalidArgument on the worker whose x has another shape
  at::Tensor operator()(const at::Tensor& x, CallSite::Where where = CallSite::Where::current()) const;

  /// The same with a margin of `fill` around it, as wide as `pads` says for each dim; written once where boxes are
  /// exchanged.
  /// Adjoint: that of the move, for the part inside the margin
  /// Where `room` is given, it has the result's shape, x is already in its place in it, requires no gradient and is no sum, and the rest is
  /// written there: the result is then `room`, where boxes are exchanged or nothing moves.
  at::Tensor padded(const at::Tensor& x, const std::vector<Pads>& pads, double fill, const at::Tensor& room = {}) const;

  const Layout& from() const;
  const Layout& to() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// A tensor without its margins. No pads: all of it.
at::Tensor within(at::Tensor y, const std::vector<Pads>& pads);

/// Moves a tensor from one layout to another, on the same workers or others: every element goes to each worker that
/// holds it in `to`.
///
/// Differentiable to any order. A worker that is in neither grid need not call. Where nothing moves the result may be x
/// or a view of it.
/// Shape:   from.shape_on(rank) -> to.shape_on(rank); outside a layout's grid any zero-volume tensor -> [0]
/// Kinds:   split, replicated, partial -> split, replicated, copied; an axis that is copied in both, or partial in
///          both, stays so, and its coordinates never mix. With a covering split in `to`, each element is copied to all
///          parts that contain it. With one in `from`, an element in several parts is summed, and one in no part is
///          zero.
/// Adjoint: move(dual(to), dual(from))
/// Cost:    that of the collective where kind_of_move names one, else of one message per box; the result, and where
///          boxes are summed the boxes of one summand (for 16-bit floats, the result in float32), or where a
///          collective's blocks must be reordered, one result more
/// Throws:  InvalidArgument as Move
/// Source:  Hewett and Grady, "A linear algebraic approach to model parallelism in deep learning", arXiv 2006.03108
at::Tensor move(const at::Tensor& x, const Layout& from, const Layout& to, const Grid& grid,
                CallSite::Where where = CallSite::Where::current());

/// Changes the way in which a tensor is split over a group.
///
/// Shape:   x of `from`, which cuts dim from.dim() -> of `to`
/// Kinds:   split -> split
/// Adjoint: all_to_all(to, from)
/// Cost:    (P-1)/P of the rank's piece each way, one message per box; makes no group
/// Throws:  InvalidArgument as Move
at::Tensor all_to_all(const at::Tensor& x, const Communicator& group, const Split& from, const Split& to,
                      CallSite::Where where = CallSite::Where::current());

/// Copies each worker's piece along the axes that have several workers in `to`, and one or none in the layout's grid.
/// Kinds:   a tensor of the layout -> copied along the new axes of `to`, otherwise unchanged
/// Adjoint: sum_reduce
at::Tensor broadcast(const at::Tensor& x, const Layout& from, const GridShape& to, const Grid& grid,
                     CallSite::Where where = CallSite::Where::current());

/// Sums the workers' tensors along the axes that have several workers in `from`, and one or none in the layout's grid.
/// Kinds:   partial along the axes that disappear, otherwise as `to` -> a tensor of the layout `to`
/// Adjoint: broadcast
at::Tensor sum_reduce(const at::Tensor& x, const GridShape& from, const Layout& to, const Grid& grid,
                      CallSite::Where where = CallSite::Where::current());

}  // namespace adjoin
