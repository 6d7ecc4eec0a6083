#pragma once

#include <span>
#include <string>

#include "bench/contenders.hpp"

namespace bench {

/// An SVG picture of time against size, both logarithmic: a panel for each operation (downwards) and number of ranks
/// (across), a line for each contender, the limit dashed. A barrier, which has no size, is left out.
std::string picture_of(std::span<const Row> rows);

}  // namespace bench
