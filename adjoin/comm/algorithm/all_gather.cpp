#include "adjoin/comm/algorithm/all_gather.hpp"

namespace adjoin::algorithm {

Program ring_all_gather(int rank, int size, std::span<const int64_t> counts) {
  const auto starts = starts_of(counts);
  const auto block = [&](int i) { return ring_block(Region::output, starts, counts, i); };
  const int next = (rank + 1) % size, previous = (rank - 1 + size) % size;

  Program program;
  const Slice own{Region::input, 0, block(rank).count};
  program.steps.push_back({.transfers = {}, .moves = {{LocalMove::Kind::copy, own, block(rank)}}});
  for (int step = 0; step < size - 1; ++step)
    program.steps.push_back({.transfers = {{Transfer::Kind::send, next, block(rank - step)},
                                           {Transfer::Kind::receive, previous, block(rank - step - 1)}},
                             .moves = {}});
  return program;
}

}  // namespace adjoin::algorithm
