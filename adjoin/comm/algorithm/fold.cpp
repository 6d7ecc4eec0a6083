#include "adjoin/comm/algorithm/fold.hpp"

#include <bit>

namespace adjoin::algorithm {

Fold::Fold(int size)
    : participants_(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), extra_(size - participants_) {}

std::vector<int64_t> Fold::merged(std::span<const int64_t> counts) const {
  std::vector<int64_t> merged(static_cast<size_t>(participants_));
  for (size_t r = 0; r < counts.size(); ++r) merged[static_cast<size_t>(index_of(static_cast<int>(r)))] += counts[r];
  return merged;
}

void Fold::add_hand_over(Program& program, int rank, const Slice& part, Transfer::Kind kind, const Slice& place) const {
  if (extra_ == 0) return;
  Step& step = program.steps.emplace_back();
  if (hands_over(rank)) step.transfers.push_back(send_to(rank - 1, part));
  if (takes_over(rank)) step.transfers.push_back({kind, rank + 1, place});
}

void Fold::add_hand_back(Program& program, int rank, const Slice& result, const Slice& place) const {
  if (extra_ == 0) return;
  Step& step = program.steps.emplace_back();
  if (takes_over(rank)) step.transfers.push_back(send_to(rank + 1, result));
  if (hands_over(rank)) step.transfers.push_back(receive_from(rank - 1, place));
}

}  // namespace adjoin::algorithm
