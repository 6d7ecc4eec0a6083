#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "adjoin/movement/move.hpp"
#include "adjoin/partition/halo_plan.hpp"

namespace adjoin {

/// A halo exchange, prepared: each worker gets exactly the inputs that its outputs need, of all dims and corners in one
/// exchange, as far away as they lie; what its own block has beyond is left out.
class HaloExchange {
 public:
  /// `windows` has one for each dim of the layout; plan_halo says how the outputs are cut. A transposed window fetches
  /// its inputs; its pads are of the outputs and are left to the caller.
  /// Throws: InvalidArgument as plan_halo and Move
  HaloExchange(const Layout& layout, const std::vector<Window>& windows, Padding padding, const Grid& grid);
  /// The same for inputs on any layout, which may be on other workers than the outputs; `fill` is what zeros are padded
  /// with instead.
  HaloExchange(const Layout& layout, HaloPlan plan, const Grid& grid, double fill = 0);

  /// Shape:   layout.shape_on(rank) -> in each dim what the windows of this worker's outputs span, padding included
  /// Kinds:   as the layout -> copied to all whose windows need an element
  /// Adjoint: ghosts are sent home and added; what nobody needs gets zero
  /// Cost:    one exchange, a message for each neighbour's box, and the result; once more the result where indices are
  ///          replicated, reflected or circular, or nothing is exchanged and padding is to be added
  at::Tensor operator()(const at::Tensor& x) const;

  /// Where the windows' outputs lie: the layout of what is computed from the result.
  const Layout& outputs() const { return plan_.outputs; }
  /// The exchange alone, before padding is added.
  const Move& fetch() const { return fetch_; }

 private:
  HaloPlan plan_;
  double fill_;
  std::vector<int> parts_;         // this worker's, of each dim; none outside the grid
  std::vector<at::Tensor> order_;  // of each dim where what was fetched is not in its place yet
  std::vector<Pads> pads_;         // of each dim; none where there are none. With another order there are none
  Move fetch_;
};

/// The same used once.
at::Tensor halo_exchange(const at::Tensor& x, const Layout& layout, const std::vector<Window>& windows, Padding padding,
                         const Grid& grid);

}  // namespace adjoin
