#include "adjoin/comm/algorithm/patterns.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

using enum Transfer::Kind;

Program naive_all_reduce(const Request& q, int rank) {
  const Slice all{Region::output, 0, q.count};
  const Request around_first{.collective = q.collective, .size = q.size, .root = 0, .count = q.count};
  Program program;
  for (const Transfer::Kind at_root : {receive_and_reduce, send})
    add_star(program, around_first, rank, at_root, all, [&](int) { return all; });
  return program;
}

Program butterfly_all_reduce(const Request& q, int rank) {
  const Fold fold(q.size);
  const Slice all{Region::output, 0, q.count};
  Program program;
  fold.add_hand_over(program, rank, all, receive_and_reduce, all);
  for (int distance = 1; distance < fold.participants(); distance *= 2) {
    Step& step = program.steps.emplace_back();
    if (fold.hands_over(rank)) continue;
    const int peer = fold.rank_of(fold.index_of(rank) ^ distance);
    step.transfers = {send_to(peer, all), reduce_from(peer, all)};
  }
  fold.add_hand_back(program, rank, all, all);
  return program;
}

Program ring_all_reduce(const Request& q, int rank) {
  const Blocks blocks(balanced_counts(q.count, q.size));
  Program program;
  add_ring(program, rank, blocks, Region::output, /*first=*/0, receive_and_reduce);
  add_ring(program, rank, blocks, Region::output, /*first=*/1, receive);
  return program;
}

Program rabenseifner_all_reduce(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(balanced_counts(q.count, fold.participants()));
  const Slice all = blocks.all(Region::output);
  Program program;
  fold.add_hand_over(program, rank, all, receive_and_reduce, all);
  add_halving(program, fold, rank, blocks, Region::output);
  add_doubling(program, fold, rank, blocks, Region::output);
  fold.add_hand_back(program, rank, all, all);
  return program;
}

}  // namespace adjoin::algorithm
