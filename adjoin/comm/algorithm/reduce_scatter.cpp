#include "adjoin/comm/algorithm/reduce_scatter.hpp"

#include "adjoin/comm/algorithm/recursive.hpp"

namespace adjoin::algorithm {

Program ring_reduce_scatter(int rank, int size, std::span<const int64_t> counts) {
  const Blocks blocks(counts);
  const auto block = [&](int i) { return blocks.around(Region::scratch, i); };
  const int next = (rank + 1) % size, previous = (rank - 1 + size) % size;

  Program program;
  program.scratch = blocks.total();
  program.before.push_back(copy_of(blocks.all(Region::input), blocks.all(Region::scratch)));
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back(
        {.transfers = {send_to(next, block(rank - step - 1)), reduce_from(previous, block(rank - step - 2))},
         .moves = {}});
  last_moves(program).push_back(copy_of(block(rank), {Region::output, 0, blocks.count(rank)}));
  return program;
}

Program halving_reduce_scatter(int rank, int size, std::span<const int64_t> counts) {
  const Fold fold(size);
  const Blocks blocks(counts), merged(fold.merged(counts));
  const Slice given = blocks.all(Region::input), sums = blocks.all(Region::scratch);
  const Slice own{Region::output, 0, blocks.count(rank)};
  Program program;
  if (!fold.hands_over(rank)) {
    program.scratch = blocks.total();
    program.before.push_back(copy_of(given, sums));
  }
  fold.add_hand_over(program, rank, given, Transfer::Kind::receive_and_reduce, sums);
  add_halving(program, fold, rank, merged, Region::scratch);
  fold.add_hand_back(program, rank, blocks.around(Region::scratch, rank + 1), own);
  if (!fold.hands_over(rank)) last_moves(program).push_back(copy_of(blocks.at(Region::scratch, rank), own));
  return program;
}

}  // namespace adjoin::algorithm
