#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// All-gather around a ring: each rank passes on the block that came last.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program ring_all_gather(int rank, int size, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
