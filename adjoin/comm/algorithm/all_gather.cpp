#include "adjoin/comm/algorithm/all_gather.hpp"

#include <algorithm>

#include "adjoin/comm/algorithm/broadcast.hpp"
#include "adjoin/comm/algorithm/gather.hpp"
#include "adjoin/comm/algorithm/recursive.hpp"

namespace adjoin::algorithm {

namespace {

LocalMove place_own(const Blocks& blocks, int rank) {
  return copy_of({Region::input, 0, blocks.count(rank)}, blocks.at(Region::output, rank));
}

}  // namespace

Program naive_all_gather(int rank, int size, std::span<const int64_t> counts) {
  const Blocks blocks(counts);
  Program program;
  program.before.push_back(place_own(blocks, rank));
  if (size == 1) return program;
  Step& step = program.steps.emplace_back();
  for (int shift = 1; shift < size; ++shift) {  // so that no two ranks begin with the same receiver
    const int to = (rank + shift) % size, from = (rank - shift + size) % size;
    step.transfers.push_back(send_to(to, blocks.at(Region::output, rank)));
    step.transfers.push_back(receive_from(from, blocks.at(Region::output, from)));
  }
  return program;
}

Program tree_all_gather(int rank, int size, std::span<const int64_t> counts) {
  return then(tree_gather(rank, size, 0, counts), tree_broadcast(rank, size, 0, total_of(counts)));
}

Program ring_all_gather(int rank, int size, std::span<const int64_t> counts) {
  const Blocks blocks(counts);
  const auto block = [&](int i) { return blocks.around(Region::output, i); };
  const int next = (rank + 1) % size, previous = (rank - 1 + size) % size;

  Program program;
  program.before.push_back(place_own(blocks, rank));
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back(
        {.transfers = {send_to(next, block(rank - step)), receive_from(previous, block(rank - step - 1))},
         .moves = {}});
  return program;
}

Program doubling_all_gather(int rank, int size, std::span<const int64_t> counts) {
  const Fold fold(size);
  const Blocks blocks(counts), merged(fold.merged(counts));
  const Slice all = blocks.all(Region::output);
  const Slice own{Region::input, 0, blocks.count(rank)}, theirs = blocks.around(Region::output, rank + 1);
  Program program;
  if (!fold.hands_over(rank)) program.before.push_back(place_own(blocks, rank));
  fold.add_hand_over(program, rank, own, Transfer::Kind::receive, theirs);
  add_doubling(program, fold, rank, merged, Region::output);
  fold.add_hand_back(program, rank, all, all);
  return program;
}

Program bruck_all_gather(int rank, int size, std::span<const int64_t> counts) {
  const Blocks blocks(counts);
  // In scratch the blocks are in the order rank, rank + 1, …
  const auto first = [&](int n) { return Slice{Region::scratch, 0, blocks.count_around(rank, n)}; };
  Program program;
  program.scratch = blocks.total();
  program.before.push_back(copy_of({Region::input, 0, blocks.count(rank)}, first(1)));
  for (int have = 1; have < size; have *= 2) {
    const int more = std::min(have, size - have);
    const Slice missing{Region::scratch, first(have).count, blocks.count_around(rank + have, more)};
    program.steps.push_back(
        {.transfers = {send_to((rank - have + size) % size, first(more)), receive_from((rank + have) % size, missing)},
         .moves = {}});
  }
  const Slice to_end = blocks.at(Region::output, rank, size - rank), from_start = blocks.at(Region::output, 0, rank);
  last_moves(program).push_back(copy_of({Region::scratch, 0, to_end.count}, to_end));
  last_moves(program).push_back(copy_of({Region::scratch, to_end.count, from_start.count}, from_start));
  return program;
}

}  // namespace adjoin::algorithm
