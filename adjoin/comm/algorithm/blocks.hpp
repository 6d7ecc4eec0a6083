#pragma once

#include <span>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// Where the blocks of all ranks lie, one behind another.
class Blocks {
 public:
  explicit Blocks(std::span<const int64_t> counts);

  int size() const { return static_cast<int>(starts_.size()) - 1; }
  int64_t total() const { return starts_.back(); }

  /// Elements of `n` blocks from `first` on.
  int64_t count(int first, int n = 1) const { return start(first + n) - start(first); }
  /// The same where the last block is followed by the first one again; `first` from 0 on, `n` up to all.
  int64_t count_around(int first, int n) const;

  Slice at(Region region, int first, int n = 1) const { return {region, start(first), count(first, n)}; }
  /// Block `i` counted around: -1 is the last one, and size() the first again.
  Slice around(Region region, int i) const { return at(region, (i % size() + size()) % size()); }
  Slice all(Region region) const { return {region, 0, total()}; }

 private:
  int64_t start(int i) const { return starts_[static_cast<size_t>(i)]; }

  std::vector<int64_t> starts_;  // of each block, and the end
};

}  // namespace adjoin::algorithm
