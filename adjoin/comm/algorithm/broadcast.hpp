#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Broadcast of `output` where the root sends to every other rank, all at once.
/// Cost: one step; the root sends P - 1 messages of `count` elements, every other rank receives one.
Program naive_broadcast(int rank, int size, int root, int64_t count);

/// Broadcast of `output` by a binomial tree: in each step every rank that has the data passes it to one that has not.
/// Cost: ceil(log2 P) steps; the root sends ceil(log2 P) messages of `count` elements, every other rank receives one.
Program tree_broadcast(int rank, int size, int root, int64_t count);

/// Broadcast of `output` around a ring, in pieces of `chunk` elements (0: one piece) that follow one another: a rank
/// receives a piece while it passes on the one before.
/// Cost: P - 2 + K steps for K pieces; each rank but the last sends K, each but the root receives K.
Program ring_broadcast(int rank, int size, int root, int64_t count, int64_t chunk);

/// The pieces that a message of `count` elements is cut into; one where it is empty.
int64_t pieces_of(int64_t count, int64_t chunk);

}  // namespace adjoin::algorithm
