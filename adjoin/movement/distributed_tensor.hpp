#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// A global tensor of which this worker holds a piece. A thin value: what it knows is what stands here.
struct DistributedTensor {
  at::Tensor local;  ///< of shape layout.shape_on(rank); of no elements outside the layout's grid
  Layout layout;
  Grid grid;  ///< whose world the layout's ranks are of
  /// The training step that made it; what is made of it carries it on. Dropout in training wants it.
  std::optional<Step> step = {};
};

/// Each worker of `grid` keeps its piece of a tensor that all of them hold.
/// Kinds:  replicated along the axes of the grid -> the layout
/// Throws: InvalidArgument where the layout is not of that shape, has a covering split, or is partial along an axis
DistributedTensor place(const at::Tensor& whole, const Layout& layout, const Grid& grid);

/// The tensor in another layout. Throws: InvalidArgument as Move
DistributedTensor move(const DistributedTensor& x, const Layout& layout);

/// The global tensor, on every worker of x.grid.
/// Kinds:  the layout, copies of one value being one value -> replicated
/// Throws: InvalidArgument for a covering split
at::Tensor whole(const DistributedTensor& x);

/// An elementwise function of the pieces.
/// Throws: InvalidArgument where `f` changes the shape, or x is partial along an axis (the sum comes first)
DistributedTensor map(const DistributedTensor& x, const std::function<at::Tensor(const at::Tensor&)>& f);

/// Carries the step of `a`, or where that has none of `b`.
/// Throws: InvalidArgument where the layouts differ or have a covering split
DistributedTensor operator+(const DistributedTensor& a, const DistributedTensor& b);

/// `b` behind `a` along a dim that every worker has whole. Nothing moves.
/// Throws: InvalidArgument where the dim is cut, or the layouts differ in another
DistributedTensor cat(const DistributedTensor& a, const DistributedTensor& b, int64_t dim);

}  // namespace adjoin
