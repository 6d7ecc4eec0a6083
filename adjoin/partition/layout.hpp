#pragma once

#include <string>
#include <vector>

#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin {

/// What a tensor is, seen along one group of workers; docs/gradient-convention.md explains the four.
enum class Kind : uint8_t {
  split,       ///< each worker holds its own piece; so does its gradient
  replicated,  ///< one logical tensor that all hold and treat the same; the gradient is replicated too
  copied,      ///< equal values, each used for the worker's own part of the work; the gradient is partial
  partial,     ///< the logical tensor is the sum of what the workers hold; the gradient is copied
};

/// The kind of a tensor's gradient: copied and partial swap, the other two stay.
Kind dual(Kind kind);

/// Where the elements of a global tensor lie on a grid of workers: each dim is whole or cut over one or more axes;
/// along every other axis the tensor is replicated, copied or partial. Pure arithmetic.
class Layout {
 public:
  /// A dim that is cut over axes: part p belongs to the workers whose coordinates on `axes` count p, row-major.
  struct Cut {
    Split split;
    std::vector<std::string> axes;
  };

  /// Throws: InvalidArgument where a cut's dim or size does not fit `shape`, its parts are not as many as its axes have
  ///         workers, or an axis is used twice.
  Layout(GridShape grid, std::vector<int64_t> shape, std::vector<Cut> cuts, Kind elsewhere = Kind::replicated);

  const GridShape& grid() const { return grid_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  const std::vector<Cut>& cuts() const { return cuts_; }
  /// What the tensor is along the axes that cut nothing.
  Kind elsewhere() const { return elsewhere_; }

  /// The part of each dim that a cell of the grid owns; 0 for a dim that is not cut.
  std::vector<int> parts_of(int cell) const;
  /// The shape of a cell's piece.
  std::vector<int64_t> shape_of(int cell) const;
  /// For each dim, the global indices of a cell's piece, in the order in which it stores them.
  std::vector<std::vector<Range>> ranges_of(int cell) const;

 private:
  const Cut* cut_of(int64_t dim) const;

  GridShape grid_;
  std::vector<int64_t> shape_;
  std::vector<Cut> cuts_;
  Kind elsewhere_;
};

}  // namespace adjoin
