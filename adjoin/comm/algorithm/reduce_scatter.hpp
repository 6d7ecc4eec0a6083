#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

// Both add up in scratch as large as the input, which stays as it was.

/// Reduce-scatter around a ring: a block starts at the rank after its owner and is added to on its way home.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program ring_reduce_scatter(int rank, int size, std::span<const int64_t> counts);

/// Reduce-scatter by recursive halving: in each step a rank sends its partner the half of the blocks that the partner
/// keeps. Where P is no power of two, see Fold.
/// Cost: log2 P steps (2 more than floor(log2 P) for no power of two, in which some send or receive all blocks).
/// Source: Thakur, Rabenseifner, Gropp, 2005, 4.4.
Program halving_reduce_scatter(int rank, int size, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
