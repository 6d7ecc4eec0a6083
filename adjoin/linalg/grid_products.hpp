#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::linalg {

/// The products of summa.hpp, without autograd and for arguments that have been checked.
///
/// Layouts have dim 0 cut over one axis of a grid and dim 1 over another.
class GridProducts {
 public:
  /// For the workers of a layout's grid; constructed by all of them.
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
  /// Indices of a dim that both a worker of a grid row and a worker of a grid column hold: their parts, and where the
  /// panel begins in their pieces.
  struct Panel {
    int from, to;
    int64_t from_offset, to_offset, count;
  };
  /// Visits this worker's share of the panels of two cuts of one dim, where each index takes `bytes`.
  void for_each_panel(const Split& from, const Split& to, int64_t bytes,
                      const std::function<void(const Panel&)>& visit) const;
  at::Tensor summed(at::Tensor product) const;

  bool has_me_;
  std::optional<int64_t> chunk_;
  Communicator row_, column_, copies_;  // the workers with the same row, the same column, the same coordinates on both
};

}  // namespace adjoin::linalg
