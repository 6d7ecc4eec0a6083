#pragma once

#include <string>

#include "adjoin/cli/layout_report.hpp"

namespace adjoin::cli {

/// Draws a placement as SVG. Elements are squares (in a large tensor, rectangles) in the colour of the rank that holds them.
/// Dims before the last two are drawn as slices, one for each range of indices that have the same layout. If the tensor is
/// moved, the layout after the move follows, with "from → to" in each box that comes from another rank; for windows, a frame
/// shows what each rank's windows need, padding included.
/// Throws: InvalidArgument where there are too many ranks or slices to draw.
std::string picture_of(const ShownMove& placement);

}  // namespace adjoin::cli
