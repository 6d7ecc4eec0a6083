#pragma once

#include <functional>
#include <span>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"

/// The parts that several algorithms are made of.
namespace adjoin::algorithm {

/// The slice of the message that goes between the root and a rank, or that a rank passes on.
using SliceOf = std::function<Slice(int rank)>;

/// One step between the root and all other ranks at once; no step where there are no others. The root does `at_root` with
/// at(peer) for each peer, and every other rank does the opposite with `own`.
void add_star(Program& program, const Request& q, int rank, Transfer::Kind at_root, const Slice& own,
              const SliceOf& at);

/// The binomial tree to the root. A subtree consists of consecutive shifted ranks. In step k the ranks whose lowest set bit is
/// 2^k send at(themselves) to the rank 2^k below, which receives it into at(child) in the way `receives` says. `at` is called
/// with shifted ranks.
void add_tree_to_root(Program& program, const Request& q, int rank, Transfer::Kind receives, const SliceOf& at);

/// P - 1 steps around the ring: in step k a rank sends block rank + first - k to the next rank and receives the block before it
/// from the previous rank.
void add_ring(Program& program, int rank, const Blocks& blocks, Region region, int first, Transfer::Kind receives);

/// How an algorithm made for a power of two runs on any number of ranks: of the first 2 * extra ranks each odd one hands its
/// part to the rank before it and gets the result back from it. The steps in between are done by the other ranks, the
/// participants, numbered by `index` in the order of ranks.
/// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005, 4.5.
class Fold {
 public:
  explicit Fold(int size);

  int participants() const { return participants_; }  // a power of two
  bool hands_over(int rank) const { return rank < 2 * extra_ && rank % 2 == 1; }
  bool takes_over(int rank) const { return rank < 2 * extra_ && rank % 2 == 0; }
  int index_of(int rank) const { return rank < 2 * extra_ ? rank / 2 : rank - extra_; }
  int rank_of(int index) const { return index < extra_ ? 2 * index : index + extra_; }

  /// The counts of the participants: each one's own, plus that of the rank that hands over to it.
  std::vector<int64_t> merged(std::span<const int64_t> counts) const;

  /// The first step, if one is needed: each rank that hands over sends its `part` to `place`, or it is reduced into that.
  void add_hand_over(Program& program, int rank, const Slice& part, Transfer::Kind kind, const Slice& place) const;
  /// The last step, if one is needed: `result` goes back to `place`.
  void add_hand_back(Program& program, int rank, const Slice& result, const Slice& place) const;

 private:
  int participants_, extra_;
};

/// Reduce-scatter among the participants of `fold`; each of them has all of `blocks` in `region`. In each step a rank sends its
/// partner the half of what it has that the partner keeps, until it has its own block, reduced.
/// Cost: log2 of the participants steps; each rank sends all blocks except its own.
void add_halving(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region);

/// All-gather among the participants, each of which has its own block in `region`: in each step a rank and its partner exchange
/// all that they have.
/// Cost: log2 of the participants steps; each rank receives all blocks except its own.
void add_doubling(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region);

}  // namespace adjoin::algorithm
