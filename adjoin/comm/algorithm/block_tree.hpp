#pragma once

#include <span>
#include <utility>
#include <vector>

#include "adjoin/comm/algorithm/blocks.hpp"

namespace adjoin::algorithm {

/// The binomial tree along which gather and scatter carry blocks, seen from one rank. Ranks are counted from the root
/// ("shifted"): below shifted rank r are those up to r + d, d its lowest bit, so that a subtree's blocks follow one
/// another.
class BlockTree {
 public:
  /// `own` is where this rank's own block comes from or goes to, `whole` where the root's blocks of all ranks are.
  BlockTree(int rank, int size, int root, std::span<const int64_t> counts, Region own, Region whole);

  int me() const { return me_; }
  int actual(int shifted) const { return (shifted + root_) % size_; }
  /// The ranks in the subtree of `shifted`, itself among them.
  int members(int shifted) const;
  bool is_leaf() const { return me_ > 0 && members(me_) == 1; }

  /// Where this rank keeps the blocks of `shifted` and those below it while they travel.
  Slice place(int shifted) const;
  Slice own() const { return {own_, 0, blocks_.count(me_)}; }
  /// Where this rank's own block lies among those it has; its own for a leaf.
  Slice kept() const;

  /// The parts of the root's buffer that belong to a subtree which goes over the last rank to the first one, each with
  /// its part of place(); empty for others.
  std::vector<std::pair<Slice, Slice>> folded(int shifted) const;

  int64_t scratch() const;

 private:
  bool goes_over(int shifted) const { return actual(shifted) + members(shifted) > size_; }

  int size_, root_, me_;
  Region own_, whole_;
  Blocks blocks_;     // in shifted order
  Blocks in_buffer_;  // in the order of ranks
};

}  // namespace adjoin::algorithm
