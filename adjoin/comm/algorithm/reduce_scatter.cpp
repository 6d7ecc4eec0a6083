#include "adjoin/comm/algorithm/patterns.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

Program ring_reduce_scatter(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  Program program;
  program.scratch = blocks.total();
  program.before.push_back(copy_of(blocks.all(Region::input), blocks.all(Region::scratch)));
  add_ring(program, rank, blocks, Region::scratch, /*first=*/-1, Transfer::Kind::receive_and_reduce);
  last_moves(program).push_back(copy_of(blocks.at(Region::scratch, rank), {Region::output, 0, blocks.count(rank)}));
  return program;
}

Program halving_reduce_scatter(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(q.counts), merged(fold.merged(q.counts));
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
