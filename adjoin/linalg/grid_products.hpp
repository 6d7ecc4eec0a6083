#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::linalg {

/// The products of summa.hpp, without autograd and of arguments that have been checked.
///
/// Layouts have their dim 0 cut over one axis of a grid and dim 1 over another.
class GridProducts {
 public:
  /// Of the workers of a layout's grid, made by all of them.
  GridProducts(const Layout& layout, const Grid& grid, std::optional<int64_t> chunk);

  struct Factor {
    const at::Tensor& local;
    const Layout& layout;
  };
  /// `to` is the layout of the result.
  at::Tensor nt(const Factor& left, const Factor& right, const Layout& to) const;
  at::Tensor nn(const Factor& left, const Factor& right) const;
  at::Tensor tn(const Factor& left, const Factor& right, const Layout& to) const;

 private:
  /// Indices of a dim that one worker of a row of the grid and one of a column hold: their parts, and where it begins
  /// in their pieces.
  struct Panel {
    int from, to;
    int64_t from_offset, to_offset, count;
  };
  /// This worker's share of the panels of two cuts of one dim, each index of which takes `bytes`.
  void for_each_panel(const Split& from, const Split& to, int64_t bytes,
                      const std::function<void(const Panel&)>& visit) const;
  at::Tensor summed(at::Tensor product) const;

  bool has_me_;
  std::optional<int64_t> chunk_;
  Communicator row_, column_, copies_;  // workers that share a row of the grid, a column, or their coordinates on both
};

}  // namespace adjoin::linalg
