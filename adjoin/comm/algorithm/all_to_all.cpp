#include "adjoin/comm/algorithm/programs.hpp"

namespace adjoin::algorithm {

namespace {

std::vector<int64_t> sent_by(const Request& q, int rank) {
  const auto row = q.counts.begin() + static_cast<ptrdiff_t>(rank) * q.size;
  return {row, row + q.size};
}

std::vector<int64_t> received_by(const Request& q, int rank) {
  std::vector<int64_t> column;
  for (int sender = 0; sender < q.size; ++sender) column.push_back(q.between(sender, rank));
  return column;
}

}  // namespace

Program pairwise_all_to_all(const Request& q, int rank) {
  return pairwise_all_to_all(rank, q.size, sent_by(q, rank), received_by(q, rank));
}

Program pairwise_all_to_all(int rank, int size, std::span<const int64_t> send_counts,
                            std::span<const int64_t> receive_counts) {
  const Blocks outgoing(send_counts), incoming(receive_counts);
  Program program;
  program.before.push_back(copy_of(outgoing.at(Region::input, rank), incoming.at(Region::output, rank)));
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size, from = (rank - step + size) % size;
    add_step(program,
             {send_to(to, outgoing.at(Region::input, to)), receive_from(from, incoming.at(Region::output, from))});
  }
  return program;
}

Program bruck_all_to_all(const Request& q, int rank) {
  const int size = q.size;
  const Blocks outgoing(sent_by(q, rank)), incoming(received_by(q, rank));
  std::vector<Slice> now;  // where the block that goes a distance in all is: its own at first, then one on its way
  for (int distance = 0; distance < size; ++distance) now.push_back(outgoing.around(Region::input, rank + distance));
  Program program;
  const auto room_for = [&](int64_t count) {
    program.scratch += count;
    return Slice{Region::scratch, program.scratch - count, count};
  };
  for (int bit = 1; bit < size; bit *= 2) {
    const int64_t begin = program.scratch;
    for (int distance = bit; distance < size; ++distance)
      if (Slice& block = now[static_cast<size_t>(distance)]; distance & bit)
        last_moves(program).push_back(copy_of(block, room_for(block.count)));
    const int64_t middle = program.scratch;
    for (int distance = bit; distance < size; ++distance)
      if (distance & bit) {
        const int sender = (rank - distance % (2 * bit) + size) % size;  // it has gone so far with this step
        now[static_cast<size_t>(distance)] = room_for(q.between(sender, (sender + distance) % size));
      }
    add_step(program, {send_to((rank + bit) % size, {Region::scratch, begin, middle - begin}),
                       receive_from((rank - bit + size) % size, {Region::scratch, middle, program.scratch - middle})});
  }
  for (int distance = 0; distance < size; ++distance)
    last_moves(program).push_back(
        copy_of(now[static_cast<size_t>(distance)], incoming.around(Region::output, rank - distance)));
  return program;
}

}  // namespace adjoin::algorithm
