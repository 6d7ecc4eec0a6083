#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// All-to-all in pairs: in step k each rank sends to rank + k and receives from rank - k.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program pairwise_all_to_all(int rank, int size, std::span<const int64_t> send_counts,
                            std::span<const int64_t> receive_counts);

/// All-to-all by Bruck: a block that has i ranks to go travels by the powers of two in i; in step k each rank sends all
/// it has whose distance has bit k, in one message, to rank + 2^k. `counts` is size x size, a row a sender: a rank passes
/// on what others send to others.
/// Cost: ceil(log2 P) steps in which a block moves as often as its distance has bits, about (log2 P) / 2 times; scratch
/// for all that passes.
/// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, 1997.
Program bruck_all_to_all(int rank, int size, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
