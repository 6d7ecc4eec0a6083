#pragma once

#include <vector>

#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin {

/// What the windows of all dims of a tensor need.
struct HaloPlan {
  Layout outputs;               ///< where what is computed from them lies
  std::vector<Window> windows;  ///< of each dim
  std::vector<Halo> halos;      ///< of each dim
  Layout fetched;               ///< what each worker holds after the exchange, before padding
};

/// The halo of a tensor, one window a dim. The outputs of a dim are cut over the axes that cut its inputs, by
/// outputs_split; along other axes they are of the inputs' kind.
/// Throws: InvalidArgument as halo_of, or for another number of windows than dims
HaloPlan plan_halo(const Layout& inputs, const std::vector<Window>& windows, Padding padding);

/// The same for inputs of a shape, where the outputs lie as given. The fetched ones lie on the outputs' grid.
HaloPlan plan_halo(const std::vector<int64_t>& inputs, const Layout& outputs, std::vector<Window> windows,
                   Padding padding);

}  // namespace adjoin
