#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Gather where every rank sends its block straight to the root, which receives all at once.
/// Cost: one step; the root receives P - 1 messages, every other rank sends one of counts[rank] elements.
Program direct_gather(int rank, int size, int root, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
