#pragma once

#include <random>
#include <utility>
#include <vector>

#include "adjoin/partition/layout.hpp"

namespace adjoin::testing {

/// A seeded draw of small numbers.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed) {}
  int64_t from(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool one_in(int64_t n) { return from(1, n) == 1; }
  uint64_t seed() { return random_(); }

 private:
  std::mt19937_64 random_;
};

/// What random pairs of layouts are drawn from.
struct LayoutLimits {
  int workers = 6;  // of the world; grids use some of them, in any order
  int64_t max_dims = 4, max_size = 9;
};

/// Two layouts of one shape between which a tensor can be moved: several axes on one dim, ranges in any order, covering
/// splits on one side, axes of one worker, every kind that is allowed, grids on parts of the world. The same for the same
/// seed.
std::pair<Layout, Layout> random_layouts(uint64_t seed, const LayoutLimits& limits);

/// A grid on some workers of a world, in any order.
GridShape random_grid(uint64_t seed, int workers);

/// An exact split of one of the kinds that there are.
Split random_split(uint64_t seed, int64_t size, int parts, int64_t dim);

/// A layout of a shape with exact splits, of kind `other` or replicated along the axes that cut nothing.
Layout random_layout(uint64_t seed, const GridShape& grid, const std::vector<int64_t>& shape, Kind other);

}  // namespace adjoin::testing
