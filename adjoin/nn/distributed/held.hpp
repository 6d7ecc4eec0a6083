#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/without_dims.hpp"

namespace adjoin::nn {

/// The global indices of a dim that a cell of the layout's grid holds, int64, in the order of storage.
at::Tensor indices_held(const Layout& layout, int64_t dim, int cell);

/// For each global index of a dim, its place among the indices that this worker holds, int64; -1 for those that others hold.
at::Tensor places_held(const Layout& layout, int64_t dim, int rank);

/// The layout of `count` tensors of one layout, stacked along a new first dim.
Layout stacked_on(const Layout& layout, int64_t count);

/// The layout of `count` dims of x from `first` on, as each worker holds them: copied along the axes that cut other dims.
Layout features_here(const Layout& x, int64_t first, int64_t count);

/// The piece that a cell needs of a tensor which all workers have whole and which is broadcast against a tensor of this layout.
/// Throws: InvalidArgument where its shape cannot be broadcast to the layout's
at::Tensor broadcast_piece(const at::Tensor& whole, const Layout& layout, int cell);

}  // namespace adjoin::nn
