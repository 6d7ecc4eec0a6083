#include "adjoin/comm/algorithm/all_reduce.hpp"

namespace adjoin::algorithm {

Program ring_all_reduce(int rank, int size, int64_t count) {
  const auto counts = balanced_counts(count, size);
  const auto starts = starts_of(counts);
  const auto block = [&](int i) { return ring_block(Region::output, starts, counts, i); };
  const int next = (rank + 1) % size, previous = (rank - 1 + size) % size;

  Program program;
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back({.transfers = {{Transfer::Kind::send, next, block(rank - step)},
                                           {Transfer::Kind::receive_and_reduce, previous, block(rank - step - 1)}},
                             .moves = {}});
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back({.transfers = {{Transfer::Kind::send, next, block(rank - step + 1)},
                                           {Transfer::Kind::receive, previous, block(rank - step)}},
                             .moves = {}});
  return program;
}

}  // namespace adjoin::algorithm
