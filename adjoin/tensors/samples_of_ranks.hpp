#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin::train {

/// A micro-batch of the ranks along replica, each of which has some of its samples.
struct SamplesOfRanks {
  std::vector<int64_t> begins = {};
  int64_t all = 0, first = 0;  ///< `first`: the place in the global batch

  /// Cost: a message of two numbers
  SamplesOfRanks(int64_t mine, int64_t first_here, const Communicator& dp) {
    std::array<int64_t, 2> here{mine, first_here};
    const std::vector<int64_t> counts(static_cast<size_t>(dp.size()), std::ssize(here));
    std::vector<int64_t> of_ranks(here.size() * counts.size());
    dp.all_gather(buffer(here), buffer(of_ranks), counts);
    for (size_t i = 0; i < of_ranks.size(); i += here.size()) {
      begins.push_back(all);
      all += of_ranks[i];
    }
    first = of_ranks[1];
  }

  /// The layout of a tensor with some rows for each sample; of another one, whole.
  Layout layout(const std::vector<int64_t>& shape, const GridShape& grid) const {
    if (begins.size() == 1 || shape.empty() || all == 0 || shape[0] % all != 0) return Layout(grid, shape);
    std::vector<int64_t> rows = begins;
    for (int64_t& begin : rows) begin *= shape[0] / all;
    return Layout(grid, shape, {{Split::at(rows, shape[0], 0), {"replica"}}});
  }
};

}  // namespace adjoin::train
