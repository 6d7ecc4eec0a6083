#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// All-reduce of `output` in place around a ring: reduce-scatter of P blocks, then all-gather of them.
/// Cost: 2 (P - 1) steps; each rank sends and receives one block of about count / P elements in each.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
Program ring_all_reduce(int rank, int size, int64_t count);

}  // namespace adjoin::algorithm
