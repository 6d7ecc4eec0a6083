#pragma once

#include <vector>

#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/window.hpp"

namespace adjoin {

/// What the windows of all dims of a tensor need.
struct HaloPlan {
  Layout outputs;               ///< the layout of what is computed from them
  std::vector<Window> windows;  ///< one for each dim
  std::vector<Halo> halos;      ///< one for each dim
  Layout fetched;               ///< what each worker holds after the exchange, before padding
};

/// The halo of a tensor, with one window per dim. The outputs of a dim are cut over the axes that cut its inputs, by
/// outputs_split; along other axes they have the inputs' kind.
/// Throws: InvalidArgument as halo_of, or where there is not one window per dim
HaloPlan plan_halo(const Layout& inputs, const std::vector<Window>& windows, const Edges& edges);

/// The same for inputs of a given shape, with a given layout of the outputs. The fetched inputs are on the outputs'
/// grid.
HaloPlan plan_halo(const std::vector<int64_t>& inputs, const Layout& outputs, std::vector<Window> windows,
                   const Edges& edges);
/// The same with other edges of each dim; dims after the last of `edges` have zeros.
HaloPlan plan_halo(const std::vector<int64_t>& inputs, const Layout& outputs, std::vector<Window> windows,
                   std::vector<Edges> edges);

}  // namespace adjoin
