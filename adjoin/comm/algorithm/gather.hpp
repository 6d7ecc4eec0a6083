#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Gather where every rank sends its block straight to the root, which receives all at once.
/// Cost: one step; the root receives P - 1 messages, every other rank sends one of counts[rank] elements.
Program naive_gather(int rank, int size, int root, std::span<const int64_t> counts);

/// Gather by a binomial tree: a rank collects the blocks below it and sends them on in one message.
/// Cost: ceil(log2 P) steps; the root receives ceil(log2 P) messages, every other rank sends one. Inner ranks have
/// scratch for what they pass on; the root for the one subtree that goes over the last rank to the first, if any.
Program tree_gather(int rank, int size, int root, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
