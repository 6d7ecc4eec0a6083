#include "adjoin/comm/algorithm/all_to_all.hpp"

#include <algorithm>

#include "adjoin/comm/algorithm/blocks.hpp"

namespace adjoin::algorithm {

Program pairwise_all_to_all(int rank, int size, std::span<const int64_t> send_counts,
                            std::span<const int64_t> receive_counts) {
  const Blocks outgoing(send_counts), incoming(receive_counts);
  Program program;
  program.before.push_back(copy_of(outgoing.at(Region::input, rank), incoming.at(Region::output, rank)));
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size, from = (rank - step + size) % size;
    program.steps.push_back({.transfers = {send_to(to, outgoing.at(Region::input, to)),
                                           receive_from(from, incoming.at(Region::output, from))},
                             .moves = {}});
  }
  return program;
}

namespace {

/// The blocks of one rank on their way, by the distance that they go in all.
class Travellers {
 public:
  Travellers(int rank, int size, std::span<const int64_t> counts) : rank_(rank), size_(size), counts_(counts) {
    const Blocks row(counts.subspan(static_cast<size_t>(rank) * static_cast<size_t>(size), static_cast<size_t>(size)));
    for (int distance = 0; distance < size; ++distance) now_.push_back(row.around(Region::input, rank + distance));
  }

  const Slice& at(int distance) const { return now_[static_cast<size_t>(distance)]; }

  /// The elements of the block of that distance which comes to this rank in the step of `bit`.
  int64_t arriving(int distance, int bit) const {
    const int gone = distance & (2 * bit - 1);
    const int sender = (rank_ - gone + size_) % size_, receiver = (sender + distance) % size_;
    return counts_[static_cast<size_t>(sender) * static_cast<size_t>(size_) + static_cast<size_t>(receiver)];
  }

  void put(int distance, const Slice& slice) { now_[static_cast<size_t>(distance)] = slice; }

 private:
  int rank_, size_;
  std::span<const int64_t> counts_;
  std::vector<Slice> now_;
};

/// Blocks that follow one another in scratch from `begin` on.
class Packer {
 public:
  explicit Packer(int64_t begin) : begin_(begin), end_(begin) {}
  Slice add(int64_t count) {
    end_ += count;
    return {Region::scratch, end_ - count, count};
  }
  Slice all() const { return {Region::scratch, begin_, end_ - begin_}; }

 private:
  int64_t begin_, end_;
};

std::vector<int64_t> column(int rank, int size, std::span<const int64_t> counts) {
  std::vector<int64_t> column;
  for (int sender = 0; sender < size; ++sender)
    column.push_back(counts[static_cast<size_t>(sender) * static_cast<size_t>(size) + static_cast<size_t>(rank)]);
  return column;
}

}  // namespace

Program bruck_all_to_all(int rank, int size, std::span<const int64_t> counts) {
  Travellers blocks(rank, size, counts);
  Program program;
  for (int bit = 1; bit < size; bit *= 2) {
    Packer leaving(program.scratch);
    for (int distance = bit; distance < size; ++distance)
      if (distance & bit) {
        const Slice& block = blocks.at(distance);
        last_moves(program).push_back(copy_of(block, leaving.add(block.count)));
      }
    Packer arriving(leaving.all().begin + leaving.all().count);
    for (int distance = bit; distance < size; ++distance)
      if (distance & bit) blocks.put(distance, arriving.add(blocks.arriving(distance, bit)));
    program.scratch = arriving.all().begin + arriving.all().count;
    program.steps.push_back({.transfers = {send_to((rank + bit) % size, leaving.all()),
                                           receive_from((rank - bit + size) % size, arriving.all())},
                             .moves = {}});
  }
  const Blocks home(column(rank, size, counts));
  for (int distance = 0; distance < size; ++distance)
    last_moves(program).push_back(copy_of(blocks.at(distance), home.around(Region::output, rank - distance)));
  return program;
}

}  // namespace adjoin::algorithm
