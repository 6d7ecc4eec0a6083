#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// All-to-all in pairs: in step k each rank sends to rank + k and receives from rank - k.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program pairwise_all_to_all(int rank, int size, std::span<const int64_t> send_counts,
                            std::span<const int64_t> receive_counts);

}  // namespace adjoin::algorithm
