#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Reduce to the root, to which every other rank sends what it has in `from`; the root reduces into its output, in the
/// order of ranks and rounding 16-bit floats once.
/// Cost: one step; the root receives P - 1 messages of `count` elements, every other rank sends one.
Program naive_reduce(int rank, int size, int root, int64_t count, Region from = Region::input);

/// Reduce to the root by a binomial tree: inner ranks add up in scratch, the root in its output.
/// Cost: ceil(log2 P) steps; the root receives ceil(log2 P) messages of `count` elements, every other rank sends one.
Program tree_reduce(int rank, int size, int root, int64_t count);

}  // namespace adjoin::algorithm
