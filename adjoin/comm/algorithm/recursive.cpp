#include "adjoin/comm/algorithm/recursive.hpp"

namespace adjoin::algorithm {

namespace {

/// The blocks of the `distance` participants around `index` that have, or want, the same.
Slice group_of(const Blocks& blocks, Region region, int index, int distance) {
  return blocks.at(region, index / distance * distance, distance);
}

}  // namespace

void add_halving(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region) {
  const int index = fold.index_of(rank);
  for (int distance = fold.participants() / 2; distance > 0; distance /= 2) {
    Step& step = program.steps.emplace_back();
    if (fold.hands_over(rank)) continue;
    const int partner = index ^ distance, peer = fold.rank_of(partner);
    step.transfers = {send_to(peer, group_of(blocks, region, partner, distance)),
                      reduce_from(peer, group_of(blocks, region, index, distance))};
  }
}

void add_doubling(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region) {
  const int index = fold.index_of(rank);
  for (int distance = 1; distance < fold.participants(); distance *= 2) {
    Step& step = program.steps.emplace_back();
    if (fold.hands_over(rank)) continue;
    const int partner = index ^ distance, peer = fold.rank_of(partner);
    step.transfers = {send_to(peer, group_of(blocks, region, index, distance)),
                      receive_from(peer, group_of(blocks, region, partner, distance))};
  }
}

}  // namespace adjoin::algorithm
