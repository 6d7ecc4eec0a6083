#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/comm/values.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::train {

/// A micro-batch of the ranks along dp, each of which has some of its samples.
struct SamplesOfRanks {
  std::vector<int64_t> begins = {};
  int64_t all = 0, first = 0;  ///< `first`: the place in the global batch

  /// Cost: a message of one number
  SamplesOfRanks(int64_t mine, int64_t first_here, const Communicator& dp) {
    constexpr int64_t kMost = int64_t{1} << 24;  // of a batch
    const std::vector<int64_t> of_ranks = numbers_of_all(first_here * kMost + mine, dp);
    for (const int64_t of_rank : of_ranks) {
      begins.push_back(all);
      all += of_rank % kMost;
    }
    first = of_ranks.front() / kMost;
  }

  /// The layout of a tensor with some rows for each sample; of another one, whole.
  Layout layout(const std::vector<int64_t>& shape, const GridShape& grid) const {
    if (begins.size() == 1 || shape.empty() || all == 0 || shape[0] % all != 0) return Layout(grid, shape);
    std::vector<int64_t> rows = begins;
    for (int64_t& begin : rows) begin *= shape[0] / all;
    return Layout(grid, shape, {{Split::at(rows, shape[0], 0), {"dp"}}});
  }
};

}  // namespace adjoin::train
