#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// All-gather where every rank sends its block to all others at once.
/// Cost: one step; each rank sends P - 1 messages of its block and receives P - 1.
Program naive_all_gather(int rank, int size, std::span<const int64_t> counts);

/// All-gather by the tree gather to rank 0 and the tree broadcast of all blocks from it.
/// Cost: 2 ceil(log2 P) steps; rank 0 sends ceil(log2 P) messages of all blocks.
Program tree_all_gather(int rank, int size, std::span<const int64_t> counts);

/// All-gather around a ring: each rank passes on the block that came last.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program ring_all_gather(int rank, int size, std::span<const int64_t> counts);

/// All-gather by recursive doubling: in each step a rank and its partner exchange all they have. Where P is no power of
/// two, see Fold; a rank that hands over gets all blocks back in the last step, its own among them.
/// Cost: log2 P steps (2 more than floor(log2 P) for no power of two).
/// Source: Thakur, Rabenseifner, Gropp, 2005, 4.1.
Program doubling_all_gather(int rank, int size, std::span<const int64_t> counts);

/// All-gather by Bruck: in step k a rank sends the first 2^k blocks that it has, or as many as are still missing, to
/// rank - 2^k and receives as many from rank + 2^k; at the end it turns them into the order of ranks.
/// Cost: ceil(log2 P) steps for any P; scratch for all blocks.
/// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in multiport
/// message-passing systems", 1997.
Program bruck_all_gather(int rank, int size, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
