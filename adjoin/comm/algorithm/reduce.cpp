#include "adjoin/comm/algorithm/reduce.hpp"

namespace adjoin::algorithm {

Program tree_reduce(int rank, int size, int root, int64_t count) {
  const auto actual = [&](int shifted) { return (shifted + root) % size; };
  const int me = (rank - root + size) % size;
  const bool is_leaf = me % 2 == 1 || me + 1 >= size;
  const Slice input{Region::input, 0, count};
  const Slice sum = me == 0 ? Slice{Region::output, 0, count} : is_leaf ? input : Slice{Region::scratch, 0, count};

  Program program;
  program.scratch = sum.region == Region::scratch ? count : 0;
  if (sum != input) program.steps.push_back({.transfers = {}, .moves = {{LocalMove::Kind::copy, input, sum}}});
  for (int distance = 1; distance < size; distance *= 2) {
    Step step;
    if (me % (2 * distance) == distance)
      step.transfers.push_back({Transfer::Kind::send, actual(me - distance), sum});
    else if (me % (2 * distance) == 0 && me + distance < size)
      step.transfers.push_back({Transfer::Kind::receive_and_reduce, actual(me + distance), sum});
    program.steps.push_back(std::move(step));
  }
  return program;
}

}  // namespace adjoin::algorithm
