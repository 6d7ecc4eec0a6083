#include "adjoin/comm/algorithm/reduce.hpp"

namespace adjoin::algorithm {

Program naive_reduce(int rank, int size, int root, int64_t count, Region from) {
  const Slice given{from, 0, count}, result{Region::output, 0, count};
  Program program;
  if (rank == root && given != result) program.before.push_back(copy_of(given, result));
  if (size == 1) return program;
  Step& step = program.steps.emplace_back();
  if (rank != root)
    step.transfers.push_back(send_to(root, given));
  else
    for (int peer = 0; peer < size; ++peer)
      if (peer != root) step.transfers.push_back(reduce_from(peer, result));
  return program;
}

Program tree_reduce(int rank, int size, int root, int64_t count) {
  const auto actual = [&](int shifted) { return (shifted + root) % size; };
  const int me = (rank - root + size) % size;
  const bool is_leaf = me % 2 == 1 || me + 1 >= size;
  const Slice input{Region::input, 0, count};
  const Slice sum = me == 0 ? Slice{Region::output, 0, count} : is_leaf ? input : Slice{Region::scratch, 0, count};

  Program program;
  program.scratch = sum.region == Region::scratch ? count : 0;
  if (sum != input) program.before.push_back(copy_of(input, sum));
  for (int distance = 1; distance < size; distance *= 2) {
    Step& step = program.steps.emplace_back();
    if (me % (2 * distance) == distance)
      step.transfers.push_back(send_to(actual(me - distance), sum));
    else if (me % (2 * distance) == 0 && me + distance < size)
      step.transfers.push_back(reduce_from(actual(me + distance), sum));
  }
  return program;
}

}  // namespace adjoin::algorithm
