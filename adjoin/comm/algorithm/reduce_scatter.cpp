#include "adjoin/comm/algorithm/reduce_scatter.hpp"

#include <numeric>

namespace adjoin::algorithm {

Program ring_reduce_scatter(int rank, int size, std::span<const int64_t> counts) {
  const auto starts = starts_of(counts);
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto block = [&](int i) {
    const auto b = static_cast<size_t>((i % size + size) % size);
    return Slice{Region::scratch, starts[b], counts[b]};
  };
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
