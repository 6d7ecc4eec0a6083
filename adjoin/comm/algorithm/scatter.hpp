#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Scatter where the root sends every rank its block, all at once.
/// Cost: one step; the root sends P - 1 messages, every other rank receives one of counts[rank] elements.
Program direct_scatter(int rank, int size, int root, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
