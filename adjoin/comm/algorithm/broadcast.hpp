#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Broadcast of `output` by a binomial tree: in each step every rank that has the data passes it to one that has not.
/// Cost: ceil(log2 P) steps; the root sends ceil(log2 P) messages of `count` elements, every other rank receives one.
Program tree_broadcast(int rank, int size, int root, int64_t count);

}  // namespace adjoin::algorithm
