#include "adjoin/comm/algorithm/scatter.hpp"

namespace adjoin::algorithm {

Program direct_scatter(int rank, int size, int root, std::span<const int64_t> counts) {
  const auto starts = starts_of(counts);
  const Slice own{Region::output, 0, counts[static_cast<size_t>(rank)]};
  Step step;
  if (rank != root) {
    step.transfers.push_back({Transfer::Kind::receive, root, own});
  } else {
    for (int peer = 0; peer < size; ++peer) {
      const auto p = static_cast<size_t>(peer);
      const Slice block{Region::input, starts[p], counts[p]};
      if (peer == rank)
        step.moves.push_back({LocalMove::Kind::copy, block, own});
      else
        step.transfers.push_back({Transfer::Kind::send, peer, block});
    }
  }
  return {.scratch = 0, .steps = {std::move(step)}};
}

}  // namespace adjoin::algorithm
