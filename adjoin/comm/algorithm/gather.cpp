#include "adjoin/comm/algorithm/gather.hpp"

namespace adjoin::algorithm {

Program direct_gather(int rank, int size, int root, std::span<const int64_t> counts) {
  const auto starts = starts_of(counts);
  const Slice own{Region::input, 0, counts[static_cast<size_t>(rank)]};
  Step step;
  if (rank != root) {
    step.transfers.push_back({Transfer::Kind::send, root, own});
  } else {
    for (int peer = 0; peer < size; ++peer) {
      const auto p = static_cast<size_t>(peer);
      const Slice block{Region::output, starts[p], counts[p]};
      if (peer == rank)
        step.moves.push_back({LocalMove::Kind::copy, own, block});
      else
        step.transfers.push_back({Transfer::Kind::receive, peer, block});
    }
  }
  return {.scratch = 0, .steps = {std::move(step)}};
}

}  // namespace adjoin::algorithm
