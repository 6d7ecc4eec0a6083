#pragma once

#include <string>

#include "adjoin/cli/layout_report.hpp"

namespace adjoin::cli {

/// Draws a placement as SVG: elements as squares (a large tensor as rectangles), in the colour of the rank that holds
/// them; dims before the last two as slices, one for each range of indices that are held alike. Behind it, where the
/// tensor is moved to, with "from → to" in each box that comes from another rank; or around it what each rank's windows
/// need, the padding included.
/// Throws: InvalidArgument where there are too many ranks or slices to be drawn.
std::string picture_of(const Placement& placement);

}  // namespace adjoin::cli
