#pragma once

#include <random>
#include <utility>

#include "adjoin/partition/layout.hpp"

namespace adjoin::testing {

/// What random pairs of layouts are drawn from.
struct LayoutLimits {
  int workers = 6;  // of the world; grids use some of them, in any order
  int64_t max_dims = 4, max_size = 9;
};

/// Two layouts of one shape between which a tensor can be moved: several axes on one dim, ranges in any order, covering
/// splits on one side, axes of one worker, every kind that is allowed, grids on parts of the world. The same for the same
/// seed.
std::pair<Layout, Layout> random_layouts(uint64_t seed, const LayoutLimits& limits);

}  // namespace adjoin::testing
