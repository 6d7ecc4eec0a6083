#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Reduce to the root by a binomial tree, the broadcast's run backwards: inner ranks add up in scratch, the root in its
/// output.
/// Cost: ceil(log2 P) steps; the root receives ceil(log2 P) messages of `count` elements, every other rank sends one.
Program tree_reduce(int rank, int size, int root, int64_t count);

}  // namespace adjoin::algorithm
