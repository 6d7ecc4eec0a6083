#include "adjoin/comm/algorithm/all_reduce.hpp"

#include "adjoin/comm/algorithm/broadcast.hpp"
#include "adjoin/comm/algorithm/recursive.hpp"
#include "adjoin/comm/algorithm/reduce.hpp"

namespace adjoin::algorithm {

Program naive_all_reduce(int rank, int size, int64_t count) {
  return then(naive_reduce(rank, size, 0, count, Region::output), naive_broadcast(rank, size, 0, count));
}

Program butterfly_all_reduce(int rank, int size, int64_t count) {
  const Fold fold(size);
  const Slice all{Region::output, 0, count};
  Program program;
  fold.add_hand_over(program, rank, all, Transfer::Kind::receive_and_reduce, all);
  for (int distance = 1; distance < fold.participants(); distance *= 2) {
    Step& step = program.steps.emplace_back();
    if (fold.hands_over(rank)) continue;
    const int peer = fold.rank_of(fold.index_of(rank) ^ distance);
    step.transfers = {send_to(peer, all), reduce_from(peer, all)};
  }
  fold.add_hand_back(program, rank, all, all);
  return program;
}

Program ring_all_reduce(int rank, int size, int64_t count) {
  const Blocks blocks(balanced_counts(count, size));
  const auto block = [&](int i) { return blocks.around(Region::output, i); };
  const int next = (rank + 1) % size, previous = (rank - 1 + size) % size;

  Program program;
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back(
        {.transfers = {send_to(next, block(rank - step)), reduce_from(previous, block(rank - step - 1))}, .moves = {}});
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back(
        {.transfers = {send_to(next, block(rank - step + 1)), receive_from(previous, block(rank - step))},
         .moves = {}});
  return program;
}

Program rabenseifner_all_reduce(int rank, int size, int64_t count) {
  const Fold fold(size);
  const Blocks blocks(balanced_counts(count, fold.participants()));
  const Slice all = blocks.all(Region::output);
  Program program;
  fold.add_hand_over(program, rank, all, Transfer::Kind::receive_and_reduce, all);
  add_halving(program, fold, rank, blocks, Region::output);
  add_doubling(program, fold, rank, blocks, Region::output);
  fold.add_hand_back(program, rank, all, all);
  return program;
}

}  // namespace adjoin::algorithm
