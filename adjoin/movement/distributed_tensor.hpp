#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <functional>
#include <optional>
#include <vector>

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
  /// Memory of which `local` is a part, with a margin around it: a layer that needs just this margin, as HaloExchange::room says, writes its
  /// halo there instead of copying `local`, unless `local` requires a gradient. Of the layers that read a tensor, one is given it.
  at::Tensor room = {};
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

/// Element by element. Nothing moves, so both have the same layout. The result carries the step of `a` or, where `a` has none, of
/// `b`.
/// Throws: InvalidArgument where the layouts differ or have a covering split; for a product also where they are partial along an
///         axis
DistributedTensor operator+(const DistributedTensor& a, const DistributedTensor& b);
DistributedTensor operator-(const DistributedTensor& a, const DistributedTensor& b);
DistributedTensor operator*(const DistributedTensor& a, const DistributedTensor& b);

/// A multiple of x, in x's layout of any kinds. Throws: InvalidArgument for a covering split
DistributedTensor operator*(const DistributedTensor& x, const at::Scalar& number);
inline DistributedTensor operator*(const at::Scalar& number, const DistributedTensor& x) {
  return x * number;
}
inline DistributedTensor operator-(const DistributedTensor& x) {
  return x * -1;
}

/// The sum over some dims (negative ones count from the end), or over all of them if none is named.
/// Shape:  without these dims, with `keepdim` of size 1 in them
/// Kinds:  split along the dims, or partial -> replicated; others stay
/// Cost:   an all-reduce of the result forward along the axes that cut the dims; nothing backward
/// Throws: InvalidArgument for dims that x does not have or that are named twice, and for a covering split
DistributedTensor sum(const DistributedTensor& x, std::vector<int64_t> dims = {}, bool keepdim = false);

/// The mean, likewise. Throws: InvalidArgument as sum, and for numbers that are neither floating-point nor complex
DistributedTensor mean(const DistributedTensor& x, std::vector<int64_t> dims = {}, bool keepdim = false);

/// Several tensors one after another along a dim, whose shapes otherwise agree.
///
/// The result is cut over the same axes as the first tensor. Where `dim` is cut, a worker's piece of the result is its pieces of
/// all tensors, one after another, so tensors that are cut over the same axes stay where they are. A tensor that lies otherwise
/// in another dim, or on another grid, is moved to the first one's layout. Sums are taken where only some are partial.
/// Cost:   a move of each tensor whose layout differs
/// Throws: InvalidArgument for no tensor, other shapes, a covering split, and layouts between which no move leads
DistributedTensor cat(const std::vector<DistributedTensor>& tensors, int64_t dim);
inline DistributedTensor cat(const DistributedTensor& a, const DistributedTensor& b, int64_t dim) {
  return cat(std::vector{a, b}, dim);
}

}  // namespace adjoin
