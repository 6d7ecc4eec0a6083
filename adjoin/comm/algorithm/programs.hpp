#pragma once

#include <span>

#include "adjoin/comm/algorithm/program.hpp"

/// The program of one rank by each algorithm, for a valid request: see check(). The catalogue lists the algorithms by name. P
/// is the number of ranks of the request, `count` the number of its elements.
///
/// Thakur et al.: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005.
/// Bruck et al.: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in multiport
/// message-passing systems", 1997.
namespace adjoin::algorithm {

// Barrier.

/// In step k each rank tells rank + 2^k that it has come, and with it all ranks that it has heard of.
/// Cost: ceil(log2 P) steps; each rank sends and receives one empty message in each.
/// Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988.
Program dissemination_barrier(const Request& q, int rank);

// Broadcast, of `output`.

/// The root sends to every other rank, all at once.
/// Cost: one step; the root sends P - 1 messages of `count` elements, every other rank receives one.
Program naive_broadcast(const Request& q, int rank);

/// A binomial tree: in each step every rank that has the data passes it to one that has not.
/// Cost: ceil(log2 P) steps; the root sends ceil(log2 P) messages of `count` elements, every other rank receives one.
Program tree_broadcast(const Request& q, int rank);

/// Around a ring, in consecutive pieces: a rank receives a piece while it passes on the one before.
/// Cost: P - 2 + K steps for K pieces; each rank except the last sends K messages, each except the root receives K.
Program ring_broadcast(const Request& q, int rank);

// Reduce.

/// Every other rank sends to the root, which reduces into its output in the order of ranks and rounds 16-bit floats
/// once.
/// Cost: one step; the root receives P - 1 messages of `count` elements, every other rank sends one.
Program naive_reduce(const Request& q, int rank);

/// A binomial tree: inner ranks add up in scratch, the root in its output.
/// Cost: ceil(log2 P) steps; the root receives ceil(log2 P) messages of `count` elements, every other rank sends one.
Program tree_reduce(const Request& q, int rank);

// All-reduce, of `output` in place.

/// The naive reduce to rank 0 and the naive broadcast from it.
/// Cost: 2 steps; rank 0 receives and sends P - 1 messages of `count` elements, every other rank one.
Program naive_all_reduce(const Request& q, int rank);

/// Recursive doubling: in step k a rank and its partner, rank ^ 2^k, exchange what they have, and both reduce it. Where P is
/// not a power of two, see Fold.
/// Cost: log2 P steps (floor(log2 P) + 2 where P is not a power of two); each rank sends and receives all elements in each.
Program butterfly_all_reduce(const Request& q, int rank);

/// Around a ring: reduce-scatter of P blocks, then all-gather of them.
/// Cost: 2 (P - 1) steps; each rank sends and receives one block of about count / P elements in each.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
Program ring_all_reduce(const Request& q, int rank);

/// Recursive halving (a reduce-scatter), then recursive doubling (an all-gather).
/// Cost: 2 log2 P steps in which a rank sends and receives about 2 (P - 1) / P of the elements; where P is not a power of two,
/// 2 more steps in which some ranks send or receive all elements.
/// Source: Rabenseifner, "Optimization of collective reduction operations", 2004; Thakur et al.
Program rabenseifner_all_reduce(const Request& q, int rank);

// Gather and scatter.

/// Every rank sends its block straight to the root, which receives all at once.
/// Cost: one step; the root receives P - 1 messages, every other rank sends one of counts[rank] elements.
Program naive_gather(const Request& q, int rank);

/// A binomial tree: a rank collects the blocks below it and sends them on in one message.
/// Cost: ceil(log2 P) steps; the root receives ceil(log2 P) messages, every other rank sends one. Inner ranks need scratch for
/// what they pass on; the root needs it for the one subtree that wraps around from the last rank to the first, if there is one.
Program tree_gather(const Request& q, int rank);

/// Both gathers run backwards.
Program naive_scatter(const Request& q, int rank);
Program tree_scatter(const Request& q, int rank);

// All-gather.

/// Every rank sends its block to all others at once.
/// Cost: one step; each rank sends P - 1 messages of its block and receives P - 1.
Program naive_all_gather(const Request& q, int rank);

/// The tree gather to rank 0 and the tree broadcast of all blocks from it.
/// Cost: 2 ceil(log2 P) steps; rank 0 sends ceil(log2 P) messages of all blocks.
Program tree_all_gather(const Request& q, int rank);

/// Around a ring: each rank passes on the block that it received last.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program ring_all_gather(const Request& q, int rank);

/// Recursive doubling: in each step a rank and its partner exchange all they have. Where P is not a power of two, see Fold; a
/// rank that hands over gets all blocks back in the last step, including its own.
/// Cost: log2 P steps (floor(log2 P) + 2 where P is not a power of two).
/// Source: Thakur et al., 4.1.
Program doubling_all_gather(const Request& q, int rank);

/// In step k a rank sends to rank - 2^k the first 2^k blocks that it has, or as many as that rank still lacks, and receives
/// equally many from rank + 2^k; at the end it puts them into the order of ranks.
/// Cost: ceil(log2 P) steps for any P; scratch for all blocks.
/// Source: Bruck et al.
Program bruck_all_gather(const Request& q, int rank);

// Reduce-scatter. Both add up in scratch as large as the input, which is not changed.

/// Around a ring: a block starts at the rank after its owner, and each rank on the way to the owner adds its own part.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program ring_reduce_scatter(const Request& q, int rank);

/// Recursive halving: in each step a rank sends its partner the half of the blocks that the partner keeps. Where P is not a
/// power of two, see Fold.
/// Cost: log2 P steps (floor(log2 P) + 2 where P is not a power of two; in the 2 more some ranks send or receive all blocks).
/// Source: Thakur et al., 4.4.
Program halving_reduce_scatter(const Request& q, int rank);

// All-to-all.

/// In step k each rank sends to rank + k and receives from rank - k.
/// Cost: P - 1 steps; each rank sends and receives one block in each.
Program pairwise_all_to_all(const Request& q, int rank);
/// The same for a rank that knows its own counts only.
Program pairwise_all_to_all(int rank, int size, std::span<const int64_t> send_counts,
                            std::span<const int64_t> receive_counts);

/// A block that has i ranks to go travels by the powers of two in i. In step k each rank sends all blocks whose distance has
/// bit k to rank + 2^k, in one message. So a rank also passes on blocks between other ranks.
/// Cost: ceil(log2 P) steps in which a block moves once for each bit set in its distance, about (log2 P) / 2 times; scratch for
/// all blocks that pass through.
/// Source: Bruck et al.
Program bruck_all_to_all(const Request& q, int rank);

}  // namespace adjoin::algorithm
