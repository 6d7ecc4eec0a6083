#include "adjoin/comm/algorithm/all_to_all.hpp"

namespace adjoin::algorithm {

Program pairwise_all_to_all(int rank, int size, std::span<const int64_t> send_counts,
                            std::span<const int64_t> receive_counts) {
  const auto send_starts = starts_of(send_counts), receive_starts = starts_of(receive_counts);
  const auto outgoing = [&](int peer) {
    const auto p = static_cast<size_t>(peer);
    return Slice{Region::input, send_starts[p], send_counts[p]};
  };
  const auto incoming = [&](int peer) {
    const auto p = static_cast<size_t>(peer);
    return Slice{Region::output, receive_starts[p], receive_counts[p]};
  };

  Program program;
  program.steps.push_back({.transfers = {}, .moves = {{LocalMove::Kind::copy, outgoing(rank), incoming(rank)}}});
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size, from = (rank - step + size) % size;
    program.steps.push_back(
        {.transfers = {{Transfer::Kind::send, to, outgoing(to)}, {Transfer::Kind::receive, from, incoming(from)}},
         .moves = {}});
  }
  return program;
}

}  // namespace adjoin::algorithm
