#include <algorithm>

#include "adjoin/comm/algorithm/patterns.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

namespace {

LocalMove place_own(const Blocks& blocks, int rank) {
  return copy_of({Region::input, 0, blocks.count(rank)}, blocks.at(Region::output, rank));
}

}  // namespace

Program naive_all_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  Program program;
  program.before.push_back(place_own(blocks, rank));
  if (q.size == 1) return program;
  Step& step = program.steps.emplace_back();
  for (int shift = 1; shift < q.size; ++shift) {  // so that no two ranks begin with the same receiver
    const int to = (rank + shift) % q.size, from = (rank - shift + q.size) % q.size;
    step.transfers.push_back(send_to(to, blocks.at(Region::output, rank)));
    step.transfers.push_back(receive_from(from, blocks.at(Region::output, from)));
  }
  return program;
}

Program tree_all_gather(const Request& q, int rank) {
  Request around_first = q;
  around_first.root = 0;
  around_first.count = total_of(q.counts);
  return then(tree_gather(around_first, rank), tree_broadcast(around_first, rank));
}

Program ring_all_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  Program program;
  program.before.push_back(place_own(blocks, rank));
  add_ring(program, rank, blocks, Region::output, /*first=*/0, Transfer::Kind::receive);
  return program;
}

Program doubling_all_gather(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(q.counts), merged(fold.merged(q.counts));
  const Slice all = blocks.all(Region::output);
  const Slice own{Region::input, 0, blocks.count(rank)}, theirs = blocks.around(Region::output, rank + 1);
  Program program;
  if (!fold.hands_over(rank)) program.before.push_back(place_own(blocks, rank));
  fold.add_hand_over(program, rank, own, Transfer::Kind::receive, theirs);
  add_doubling(program, fold, rank, merged, Region::output);
  fold.add_hand_back(program, rank, all, all);
  return program;
}

Program bruck_all_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  // In scratch the blocks are in the order rank, rank + 1, …
  const auto first = [&](int n) { return Slice{Region::scratch, 0, blocks.count_around(rank, n)}; };
  Program program;
  program.scratch = blocks.total();
  program.before.push_back(copy_of({Region::input, 0, blocks.count(rank)}, first(1)));
  for (int have = 1; have < q.size; have *= 2) {
    const int more = std::min(have, q.size - have);
    const Slice missing{Region::scratch, first(have).count, blocks.count_around(rank + have, more)};
    add_step(program,
             {send_to((rank - have + q.size) % q.size, first(more)), receive_from((rank + have) % q.size, missing)});
  }
  const Slice to_end = blocks.at(Region::output, rank, q.size - rank), from_start = blocks.at(Region::output, 0, rank);
  last_moves(program).push_back(copy_of({Region::scratch, 0, to_end.count}, to_end));
  last_moves(program).push_back(copy_of({Region::scratch, to_end.count, from_start.count}, from_start));
  return program;
}

}  // namespace adjoin::algorithm
