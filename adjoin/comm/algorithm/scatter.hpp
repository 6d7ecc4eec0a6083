#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Scatter where the root sends every rank its block, all at once.
/// Cost: one step; the root sends P - 1 messages, every other rank receives one of counts[rank] elements.
Program naive_scatter(int rank, int size, int root, std::span<const int64_t> counts);

/// Scatter by a binomial tree, gather's run backwards: a rank gets the blocks of all below it in one message.
/// Cost: ceil(log2 P) steps; the root sends ceil(log2 P) messages, every other rank receives one. Scratch as gather's.
Program tree_scatter(int rank, int size, int root, std::span<const int64_t> counts);

}  // namespace adjoin::algorithm
