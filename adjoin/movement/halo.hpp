#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/movement/move.hpp"
#include "adjoin/partition/halo_plan.hpp"

namespace adjoin {

/// A prepared halo exchange: each worker gets exactly the inputs that its outputs need, for all dims and corners in one
/// exchange, however far away they are. Inputs of its own block that it does not need are dropped.
class HaloExchange {
 public:
  /// `windows` has one entry for each dim of the layout; plan_halo says how the outputs are cut. A transposed window
  /// fetches its inputs; its pads apply to the outputs, and the caller must apply them.
  /// Throws: InvalidArgument as plan_halo and Move
  HaloExchange(const Layout& layout, const std::vector<Window>& windows, const Edges& edges, const Grid& grid);
  /// The same for inputs on any layout, which may be on other workers than the outputs; padding that would be zeros is
  /// `fill` instead, where the plan's edges have no value of their own. Where values of two dims meet, the later dim's counts.
  HaloExchange(const Layout& layout, HaloPlan plan, const Grid& grid, double fill = 0);

  /// Shape:   layout.shape_on(rank) -> in each dim the span of the windows of this worker's outputs, including padding
  /// Kinds:   as the layout -> copied to all workers whose windows need an element
  /// Adjoint: ghosts are sent back to their owners and added; an element that no worker needs gets zero
  /// Cost:    one exchange with one message for each neighbour's box, and the result; the result once more where
  ///          indices are replicated, reflected or circular, or where nothing is exchanged and padding must be added
  /// Where x is the part of `room` that room() says, and requires no gradient, its halo is written there and x is not copied for it.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& room = {}) const;

  /// How far what is fetched, with its padding, goes beyond this worker's piece of the input, for each dim. Empty where the piece is no
  /// part of it.
  const std::vector<Pads>& room() const { return room_; }
  /// The layout of the windows' outputs, which are computed from the result.
  const Layout& outputs() const { return plan_.outputs; }
  /// The exchange alone, before padding is added.
  const Move& fetch() const { return fetch_; }

 private:
  void write_values(const at::Tensor& y) const;

  HaloPlan plan_;
  double fill_;
  std::vector<int> parts_;         // of this worker, one for each dim; none outside the grid
  std::vector<at::Tensor> order_;  // for each dim in which the fetched elements are not yet in order
  std::vector<Pads> pads_;         // for each dim; empty where there are none, as with `order_`
  std::vector<Pads> room_;
  bool has_values_ = false;  // some of the pads are not `fill_`
  Move fetch_;
};

/// The same used once.
at::Tensor halo_exchange(const at::Tensor& x, const Layout& layout, const std::vector<Window>& windows,
                         const Edges& edges, const Grid& grid);

}  // namespace adjoin
