#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "adjoin/movement/forward_pass.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// A global tensor of which this worker holds a piece. A thin value: it consists of these members only.
struct DistributedTensor {
  at::Tensor local;  ///< of shape layout.shape_on(rank); without elements outside the layout's grid
  Layout layout;
  Grid grid;  ///< the layout's ranks are those of its world
  /// The training step that made it; tensors computed from it carry it on. Dropout in training requires it.
  std::optional<Step> step = {};
};

/// Each worker of `grid` keeps its piece of a tensor that all of them hold.
/// Kinds:  replicated along the axes of the grid -> the layout
/// Throws: InvalidArgument where the layout is not for that shape, has a covering split, or is partial along an axis
DistributedTensor place(const at::Tensor& whole, const Layout& layout, const Grid& grid);

/// The tensor in another layout. Throws: InvalidArgument as Move
DistributedTensor move(const DistributedTensor& x, const Layout& layout);

/// The global tensor, on every worker of x.grid.
/// Kinds:  the layout, where several copies of one value count as one value -> replicated
/// Throws: InvalidArgument for a covering split
at::Tensor whole(const DistributedTensor& x);

/// Applies an elementwise function to the pieces.
/// Throws: InvalidArgument where `f` changes the shape, or x is partial along an axis (sum it first)
DistributedTensor map(const DistributedTensor& x, const std::function<at::Tensor(const at::Tensor&)>& f);

/// The result carries the step of `a` or, where `a` has none, of `b`.
/// Throws: InvalidArgument where the layouts differ or have a covering split
DistributedTensor operator+(const DistributedTensor& a, const DistributedTensor& b);

/// `b` appended to `a` along a dim that every worker holds whole. Nothing moves.
/// Throws: InvalidArgument where the dim is cut, or the layouts differ in another dim
DistributedTensor cat(const DistributedTensor& a, const DistributedTensor& b, int64_t dim);

}  // namespace adjoin
