#pragma once

#include <ATen/core/Tensor.h>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::testing {

/// A cell's piece of a random float64 tensor: the same on the cells that differ along replicated axes alone. Every rank
/// can draw every cell's.
at::Tensor random_piece(const Layout& layout, int cell, int64_t seed);
/// This rank's; without elements outside the grid.
at::Tensor random_piece_here(const Layout& layout, const Communicator& world, int64_t seed);

/// A cell's elements of a global tensor, in the order in which its piece stores them.
at::Tensor piece_of(const at::Tensor& global, const Layout& layout, int cell);
/// Adds a cell's piece to a global tensor.
void add_piece(const at::Tensor& global, const Layout& layout, int cell, const at::Tensor& piece);

/// The inner product over all workers of the world, what is replicated counted once.
double inner_product(const at::Tensor& a, const at::Tensor& b, const Layout& layout, const Communicator& world);

}  // namespace adjoin::testing
