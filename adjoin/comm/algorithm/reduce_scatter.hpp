#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Reduce-scatter around a ring: a block starts at the rank after its owner and is added to on its way home.
/// Cost: P - 1 steps; each rank sends and receives one block in each. Scratch as large as the input, which stays as it
/// was.
Program ring_reduce_scatter(int rank, int size, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
