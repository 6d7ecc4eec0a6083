#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/partition/grid.hpp"

namespace adjoin {

/// Copies each worker's tensor along the axes on which the grid `from` has one worker and `to` has more.
///
/// Both grids have the same axes and are of the same world, all of whose ranks call; they may share workers or not. A
/// worker outside `from` passes any zero-volume tensor of the same dtype; one outside `to` gets a zero-volume tensor.
/// Shape:   any on `from`, which may differ from cell to cell -> the same on the cells of `to` that copy it
/// Kinds:   a tensor on `from` -> copied along the new axes of `to`
/// Adjoint: sum_reduce(to, from)
/// Cost:    a worker of `from` sends x to each of its copies in turn; one header a message
/// Throws:  InvalidArgument where the grids' axes do not fit
/// Source:  Hewett and Grady, "A linear algebraic approach to model parallelism in deep learning", arXiv 2006.03108
at::Tensor broadcast(const at::Tensor& x, const Grid& from, const Grid& to);

/// Sums the workers' tensors along the axes on which the grid `from` has several workers and `to` has one.
///
/// Shape:   the same on all cells of `from` that are added -> that shape on `to`
/// Kinds:   partial along the axes that go -> a tensor on `to`
/// Adjoint: broadcast(to, from)
/// Cost:    a worker of `to` receives one x from each of its summands, holds them all, and adds them in row-major order
/// Throws:  InvalidArgument where the grids' axes or the summands' shapes do not fit
at::Tensor sum_reduce(const at::Tensor& x, const Grid& from, const Grid& to);

}  // namespace adjoin
