#include "adjoin/comm/algorithm/reduce_scatter.hpp"

namespace adjoin::algorithm {

Program ring_reduce_scatter(int rank, int size, std::span<const int64_t> counts) {
  const auto starts = starts_of(counts);
  const int64_t total = total_of(counts);
  const auto block = [&](int i) { return ring_block(Region::scratch, starts, counts, i); };
  const int next = (rank + 1) % size, previous = (rank - 1 + size) % size;

  Program program;
  program.scratch = total;
  program.steps.push_back(
      {.transfers = {}, .moves = {{LocalMove::Kind::copy, {Region::input, 0, total}, {Region::scratch, 0, total}}}});
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back({.transfers = {{Transfer::Kind::send, next, block(rank - step - 1)},
                                           {Transfer::Kind::receive_and_reduce, previous, block(rank - step - 2)}},
                             .moves = {}});
  const Slice own{Region::output, 0, block(rank).count};
  program.steps.push_back({.transfers = {}, .moves = {{LocalMove::Kind::copy, block(rank), own}}});
  return program;
}

}  // namespace adjoin::algorithm
