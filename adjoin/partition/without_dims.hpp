#pragma once

#include <vector>

#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// The layout of x without some dims (with size 1 in them if `keeps_dims`), with the given kind along the axes that cut them.
Layout without_dims(const Layout& x, const std::vector<int64_t>& dims, Kind kind, bool keeps_dims = false);

}  // namespace adjoin
