#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/partition/layout.hpp"

namespace adjoin::nn {

/// The global indices of a dim that a cell of the layout's grid holds, int64, in the order in which it stores them.
at::Tensor indices_held(const Layout& layout, int64_t dim, int cell);

/// Of each global index of a dim its place among those that this worker holds, int64; -1 for those that others hold.
at::Tensor places_held(const Layout& layout, int64_t dim, int rank);

/// `count` tensors of a layout, one behind another along a new first dim.
Layout stacked_on(const Layout& layout, int64_t count);

/// The layout of x without some dims, or with a size of 1 in them if it keeps them: of a kind along the axes that cut them.
Layout without_dims(const Layout& x, const std::vector<int64_t>& dims, Kind kind, bool keeps_dims = false);

/// The numbers of `count` dims of x from `first` on that each worker holds: copied along the axes that cut other dims.
Layout features_here(const Layout& x, int64_t first, int64_t count);

/// What meets a cell's piece of a tensor, of one that all workers have whole and that is broadcast against that tensor.
/// Throws: InvalidArgument where its shape cannot be broadcast to the layout's
at::Tensor broadcast_piece(const at::Tensor& whole, const Layout& layout, int cell);

}  // namespace adjoin::nn
