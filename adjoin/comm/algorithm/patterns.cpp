#include "adjoin/comm/algorithm/patterns.hpp"

#include <bit>

namespace adjoin::algorithm {

using enum Transfer::Kind;

void add_star(Program& program, const Request& q, int rank, Transfer::Kind at_root, const Slice& own,
              const SliceOf& at) {
  if (q.size == 1) return;
  Step& step = program.steps.emplace_back();
  if (rank != q.root)
    step.transfers.push_back({at_root == send ? receive : send, q.root, own});
  else
    for (int shift = 1; shift < q.size; ++shift)
      step.transfers.push_back({at_root, q.actual(shift), at(q.actual(shift))});
}

void add_tree_to_root(Program& program, const Request& q, int rank, Transfer::Kind receives, const SliceOf& at) {
  const int me = q.shifted(rank);
  for (int distance = 1; distance < q.size; distance *= 2) {
    Step& step = program.steps.emplace_back();
    if (me % (2 * distance) == distance)
      step.transfers.push_back(send_to(q.actual(me - distance), at(me)));
    else if (me % (2 * distance) == 0 && me + distance < q.size)
      step.transfers.push_back({receives, q.actual(me + distance), at(me + distance)});
  }
}

void add_ring(Program& program, int rank, const Blocks& blocks, Region region, int first, Transfer::Kind receives) {
  const int size = blocks.size(), next = (rank + 1) % size, previous = (rank - 1 + size) % size;
  for (int block = rank + first; block > rank + first - (size - 1); --block)
    add_step(program,
             {send_to(next, blocks.around(region, block)), {receives, previous, blocks.around(region, block - 1)}});
}

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

namespace {

/// One step of either recursion: `index` exchanges with its partner. All participants in a group of `distance` have, or want,
/// the same blocks.
void add_exchange(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region, int distance,
                  Transfer::Kind receives) {
  Step& step = program.steps.emplace_back();
  if (fold.hands_over(rank)) return;
  const int index = fold.index_of(rank), partner = index ^ distance, peer = fold.rank_of(partner);
  const Slice mine = blocks.at(region, index / distance * distance, distance);
  const Slice theirs = blocks.at(region, partner / distance * distance, distance);
  if (receives == receive)
    step.transfers = {send_to(peer, mine), receive_from(peer, theirs)};
  else
    step.transfers = {send_to(peer, theirs), reduce_from(peer, mine)};
}

}  // namespace

void add_halving(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region) {
  for (int distance = fold.participants() / 2; distance > 0; distance /= 2)
    add_exchange(program, fold, rank, blocks, region, distance, receive_and_reduce);
}

void add_doubling(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region) {
  for (int distance = 1; distance < fold.participants(); distance *= 2)
    add_exchange(program, fold, rank, blocks, region, distance, receive);
}

}  // namespace adjoin::algorithm
