#pragma once

#include <ATen/ATen.h>

#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/movement/halo.hpp"

namespace adjoin::example {

/// The plate of heat.cpp on a grid of workers {y, x}, whose border is kept at 0 by zeros around it.
///
/// A step of time needs the neighbours' edges: one halo exchange, whose adjoint brings their gradients home. The rest is written
/// as if the worker were alone.
class Plate {
 public:
  static constexpr int64_t kRows = 30, kColumns = 26;
  static constexpr double kConductivity = 0.2;  // of a step; above 0.25 the explicit scheme is unstable

  explicit Plate(const Grid& grid)
      : grid_(grid),
        layout_(grid.shape(), {kRows, kColumns},
                {{Split::balanced(kRows, grid.shape().axis_size("y"), 0), {"y"}},
                 {Split::balanced(kColumns, grid.shape().axis_size("x"), 1), {"x"}}}),
        with_edges_(layout_, {kNeighbours, kNeighbours}, Padding::zeros, grid) {}

  /// This worker's piece of temperatures of the whole plate.
  at::Tensor piece_of(const at::Tensor& whole) const { return place(whole, layout_, grid_).local.clone(); }

  const Layout& layout() const { return layout_; }

  /// Its piece after steps of time: each is u + c (up + down + left + right - 4 u).
  at::Tensor after(int steps, at::Tensor u) const {
    for (int step = 0; step < steps; ++step) {
      const at::Tensor edged = with_edges_(u);
      const auto moved = [&](int64_t y, int64_t x) {
        return edged.slice(0, y, y + u.size(0)).slice(1, x, x + u.size(1));
      };
      u = u + kConductivity * (moved(0, 1) + moved(2, 1) + moved(1, 0) + moved(1, 2) - 4 * u);
    }
    return u;
  }

 private:
  static constexpr Window kNeighbours{.kernel = 3, .before = 1, .after = 1};
  Grid grid_;
  Layout layout_;
  HaloExchange with_edges_;
};

}  // namespace adjoin::example
