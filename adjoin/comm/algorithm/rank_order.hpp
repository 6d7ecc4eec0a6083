#pragma once

#include <span>

#include "adjoin/comm/backend.hpp"

namespace adjoin {

/// Reductions whose every element is reduce_all_into of all ranks' elements in rank order, so that each backend gives the
/// same bits. Blocks of all ranks' inputs go to the rank that reduces them, and the results where they are wanted.
/// Arguments are those of Backend's functions of that name.
/// Cost: the bytes of the ring algorithms, and room for as many as this rank gives.
void reduce_in_rank_order(Backend& group, ConstBuffer in, Buffer out, Reduction reduction, int root);
void all_reduce_in_rank_order(Backend& group, Buffer buffer, Reduction reduction);
void reduce_scatter_in_rank_order(Backend& group, ConstBuffer in, Buffer out, std::span<const int64_t> counts,
                                  Reduction reduction);

}  // namespace adjoin
