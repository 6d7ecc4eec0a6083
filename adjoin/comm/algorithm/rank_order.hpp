#pragma once

#include "adjoin/comm/backend.hpp"

namespace adjoin::algorithm {

/// A reduce, all_reduce or reduce_scatter whose every element is reduce_all_into of all ranks' elements in rank order:
/// blocks of all ranks' inputs go to the rank that reduces them, and the results where they are wanted, by the backend's
/// own collectives.
/// Cost: the bytes of the ring algorithms, and room for as many as this rank gives
void reduce_in_rank_order(const Call& call, Backend& backend);

}  // namespace adjoin::algorithm
