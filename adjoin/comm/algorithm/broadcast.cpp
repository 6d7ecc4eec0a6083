#include "adjoin/comm/algorithm/broadcast.hpp"

#include <algorithm>

namespace adjoin::algorithm {

Program naive_broadcast(int rank, int size, int root, int64_t count) {
  const Slice all{Region::output, 0, count};
  Program program;
  if (size == 1) return program;
  Step& step = program.steps.emplace_back();
  if (rank != root)
    step.transfers.push_back(receive_from(root, all));
  else
    for (int shift = 1; shift < size; ++shift) step.transfers.push_back(send_to((root + shift) % size, all));
  return program;
}

Program tree_broadcast(int rank, int size, int root, int64_t count) {
  const auto actual = [&](int shifted) { return (shifted + root) % size; };  // the tree grows from shifted rank 0
  const int me = (rank - root + size) % size;
  const Slice all{Region::output, 0, count};
  Program program;
  for (int holders = 1; holders < size; holders *= 2) {
    Step& step = program.steps.emplace_back();
    if (me < holders && me + holders < size)
      step.transfers.push_back(send_to(actual(me + holders), all));
    else if (me >= holders && me < 2 * holders)
      step.transfers.push_back(receive_from(actual(me - holders), all));
  }
  return program;
}

int64_t pieces_of(int64_t count, int64_t chunk) {
  return chunk == 0 || count == 0 ? 1 : (count + chunk - 1) / chunk;
}

Program ring_broadcast(int rank, int size, int root, int64_t count, int64_t chunk) {
  const int64_t pieces = pieces_of(count, chunk);
  const int me = (rank - root + size) % size;
  const auto piece = [&](int64_t k) {
    const int64_t begin = k * chunk;
    return Slice{Region::output, begin, pieces == 1 ? count : std::min(chunk, count - begin)};
  };

  Program program;
  if (size == 1) return program;
  program.steps.resize(static_cast<size_t>(size - 2 + pieces));
  for (int64_t k = 0; k < pieces; ++k) {  // piece k comes to shifted rank r in step r - 1 + k
    if (me > 0)
      program.steps[static_cast<size_t>(me - 1 + k)].transfers.push_back(
          receive_from((rank - 1 + size) % size, piece(k)));
    if (me < size - 1)
      program.steps[static_cast<size_t>(me + k)].transfers.push_back(send_to((rank + 1) % size, piece(k)));
  }
  return program;
}

}  // namespace adjoin::algorithm
