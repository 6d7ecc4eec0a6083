#pragma once

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// All-reduce of `output` in place by the naive reduce to rank 0 and the naive broadcast from it.
/// Cost: 2 steps; rank 0 receives and sends P - 1 messages of `count` elements, every other rank one.
Program naive_all_reduce(int rank, int size, int64_t count);

/// All-reduce of `output` in place by recursive doubling: in step k a rank and its partner, rank ^ 2^k, exchange what
/// they have and both reduce it. Where P is no power of two, see Fold.
/// Cost: log2 P steps (2 more than floor(log2 P) for no power of two); each rank sends and receives all in each.
Program butterfly_all_reduce(int rank, int size, int64_t count);

/// All-reduce of `output` in place around a ring: reduce-scatter of P blocks, then all-gather of them.
/// Cost: 2 (P - 1) steps; each rank sends and receives one block of about count / P elements in each.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
Program ring_all_reduce(int rank, int size, int64_t count);

/// All-reduce of `output` in place by recursive halving (a reduce-scatter), then recursive doubling (an all-gather).
/// Cost: 2 log2 P steps in which a rank sends and receives about 2 (P - 1) / P of the elements; where P is no power of
/// two, 2 more steps in which some send or receive all.
/// Source: Rabenseifner, "Optimization of collective reduction operations", 2004; Thakur, Rabenseifner, Gropp, 2005.
Program rabenseifner_all_reduce(int rank, int size, int64_t count);

}  // namespace adjoin::algorithm
