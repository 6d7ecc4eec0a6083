#include <algorithm>

#include "adjoin/comm/algorithm/patterns.hpp"
#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

Program naive_broadcast(const Request& q, int rank) {
  const Slice all{Region::output, 0, q.count};
  Program program;
  add_star(program, q, rank, Transfer::Kind::send, all, [&](int) { return all; });
  return program;
}

Program tree_broadcast(const Request& q, int rank) {
  const int me = q.shifted(rank);  // the tree grows from shifted rank 0
  const Slice all{Region::output, 0, q.count};
  Program program;
  for (int holders = 1; holders < q.size; holders *= 2) {
    Step& step = program.steps.emplace_back();
    if (me < holders && me + holders < q.size)
      step.transfers.push_back(send_to(q.actual(me + holders), all));
    else if (me >= holders && me < 2 * holders)
      step.transfers.push_back(receive_from(q.actual(me - holders), all));
  }
  return program;
}

Program ring_broadcast(const Request& q, int rank) {
  const int64_t pieces = q.pieces();
  const int me = q.shifted(rank);
  Program program;
  if (q.size == 1) return program;
  program.steps.resize(static_cast<size_t>(q.size - 2 + pieces));
  for (int64_t k = 0; k < pieces; ++k) {  // piece k comes to shifted rank r in step r - 1 + k
    const int64_t begin = k * q.chunk;
    const Slice piece{Region::output, begin, pieces == 1 ? q.count : std::min(q.chunk, q.count - begin)};
    const auto transfers = [&](int64_t step) -> auto& { return program.steps[static_cast<size_t>(step)].transfers; };
    if (me > 0) transfers(me - 1 + k).push_back(receive_from(q.actual(me - 1), piece));
    if (me < q.size - 1) transfers(me + k).push_back(send_to(q.actual(me + 1), piece));
  }
  return program;
}

}  // namespace adjoin::algorithm
