#include "adjoin/comm/algorithm/broadcast.hpp"

namespace adjoin::algorithm {

Program tree_broadcast(int rank, int size, int root, int64_t count) {
  const auto actual = [&](int shifted) { return (shifted + root) % size; };  // the tree grows from shifted rank 0
  const int me = (rank - root + size) % size;
  const Slice all{Region::output, 0, count};
  Program program;
  for (int holders = 1; holders < size; holders *= 2) {
    Step step;
    if (me < holders && me + holders < size)
      step.transfers.push_back({Transfer::Kind::send, actual(me + holders), all});
    else if (me >= holders && me < 2 * holders)
      step.transfers.push_back({Transfer::Kind::receive, actual(me - holders), all});
    program.steps.push_back(std::move(step));
  }
  return program;
}

}  // namespace adjoin::algorithm
