#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Barrier by dissemination: in step k each rank tells rank + 2^k that it, and all it has heard of, have come.
/// Cost: ceil(log2 P) steps; each rank sends and receives one empty message in each.
/// Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.
Program dissemination_barrier(int rank, int size);

}  // namespace adjoin::algorithm
