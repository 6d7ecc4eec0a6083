#include "adjoin/comm/algorithm/programs.hpp"

#include <algorithm>

#include "adjoin/comm/algorithm/patterns.hpp"

namespace adjoin::algorithm {

using enum Transfer::Kind;

namespace {

LocalMove place_own(const Blocks& blocks, int rank) {
  return copy_of({Region::input, 0, blocks.count(rank)}, blocks.at(Region::output, rank));
}

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

Program dissemination_barrier(const Request& q, int rank) {
  Program program;
  for (int distance = 1; distance < q.size; distance *= 2)
    add_step(program, {send_to((rank + distance) % q.size, {}), receive_from((rank - distance + q.size) % q.size, {})});
  return program;
}

Program naive_all_reduce(const Request& q, int rank) {
  const Slice all{Region::output, 0, q.count};
  const Request around_first{.collective = q.collective, .size = q.size, .root = 0, .count = q.count};
  Program program;
  for (const Transfer::Kind at_root : {receive_and_reduce, send})
    add_star(program, around_first, rank, at_root, all, [&](int) { return all; });
  return program;
}

Program butterfly_all_reduce(const Request& q, int rank) {
  const Fold fold(q.size);
  const Slice all{Region::output, 0, q.count};
  Program program;
  fold.add_hand_over(program, rank, all, receive_and_reduce, all);
  for (int distance = 1; distance < fold.participants(); distance *= 2) {
    Step& step = program.steps.emplace_back();
    if (fold.hands_over(rank)) continue;
    const int peer = fold.rank_of(fold.index_of(rank) ^ distance);
    step.transfers = {send_to(peer, all), reduce_from(peer, all)};
  }
  fold.add_hand_back(program, rank, all, all);
  return program;
}

Program ring_all_reduce(const Request& q, int rank) {
  const Blocks blocks(balanced_counts(q.count, q.size));
  Program program;
  add_ring(program, rank, blocks, Region::output, /*first=*/0, receive_and_reduce);
  add_ring(program, rank, blocks, Region::output, /*first=*/1, receive);
  return program;
}

Program rabenseifner_all_reduce(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(balanced_counts(q.count, fold.participants()));
  const Slice all = blocks.all(Region::output);
  Program program;
  fold.add_hand_over(program, rank, all, receive_and_reduce, all);
  add_halving(program, fold, rank, blocks, Region::output);
  add_doubling(program, fold, rank, blocks, Region::output);
  fold.add_hand_back(program, rank, all, all);
  return program;
}

Program ring_reduce_scatter(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  Program program;
  program.scratch = blocks.total();
  program.before.push_back(copy_of(blocks.all(Region::input), blocks.all(Region::scratch)));
  add_ring(program, rank, blocks, Region::scratch, /*first=*/-1, receive_and_reduce);
  last_moves(program).push_back(copy_of(blocks.at(Region::scratch, rank), {Region::output, 0, blocks.count(rank)}));
  return program;
}

Program halving_reduce_scatter(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(q.counts), merged(fold.merged(q.counts));
  const Slice given = blocks.all(Region::input), sums = blocks.all(Region::scratch);
  const Slice own{Region::output, 0, blocks.count(rank)};
  Program program;
  if (!fold.hands_over(rank)) {
    program.scratch = blocks.total();
    program.before.push_back(copy_of(given, sums));
  }
  fold.add_hand_over(program, rank, given, receive_and_reduce, sums);
  add_halving(program, fold, rank, merged, Region::scratch);
  fold.add_hand_back(program, rank, blocks.around(Region::scratch, rank + 1), own);
  if (!fold.hands_over(rank)) last_moves(program).push_back(copy_of(blocks.at(Region::scratch, rank), own));
  return program;
}

Program naive_all_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  Program program;
  program.before.push_back(place_own(blocks, rank));
  if (q.size == 1) return program;
  Step& step = program.steps.emplace_back();
  for (int shift = 1; shift < q.size; ++shift) {  // so that no two ranks begin with the same receiver
    const int to = (rank + shift) % q.size, from = (rank - shift + q.size) % q.size;
    step.transfers.push_back(send_to(to, blocks.at(Region::output, rank)));
    step.transfers.push_back(receive_from(from, blocks.at(Region::output, from)));
  }
  return program;
}

Program tree_all_gather(const Request& q, int rank) {
  Request around_first = q;
  around_first.root = 0;
  around_first.count = total_of(q.counts);
  return then(tree_gather(around_first, rank), tree_broadcast(around_first, rank));
}

Program ring_all_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  Program program;
  program.before.push_back(place_own(blocks, rank));
  add_ring(program, rank, blocks, Region::output, /*first=*/0, receive);
  return program;
}

Program doubling_all_gather(const Request& q, int rank) {
  const Fold fold(q.size);
  const Blocks blocks(q.counts), merged(fold.merged(q.counts));
  const Slice all = blocks.all(Region::output);
  const Slice own{Region::input, 0, blocks.count(rank)}, theirs = blocks.around(Region::output, rank + 1);
  Program program;
  if (!fold.hands_over(rank)) program.before.push_back(place_own(blocks, rank));
  fold.add_hand_over(program, rank, own, receive, theirs);
  add_doubling(program, fold, rank, merged, Region::output);
  fold.add_hand_back(program, rank, all, all);
  return program;
}

Program bruck_all_gather(const Request& q, int rank) {
  const Blocks blocks(q.counts);
  // In scratch the blocks are ordered rank, rank + 1, …
  const auto first = [&](int n) { return Slice{Region::scratch, 0, blocks.count_around(rank, n)}; };
  Program program;
  program.scratch = blocks.total();
  program.before.push_back(copy_of({Region::input, 0, blocks.count(rank)}, first(1)));
  for (int have = 1; have < q.size; have *= 2) {
    const int more = std::min(have, q.size - have);
    const Slice missing{Region::scratch, first(have).count, blocks.count_around(rank + have, more)};
    add_step(program,
             {send_to((rank - have + q.size) % q.size, first(more)), receive_from((rank + have) % q.size, missing)});
  }
  const Slice to_end = blocks.at(Region::output, rank, q.size - rank), from_start = blocks.at(Region::output, 0, rank);
  last_moves(program).push_back(copy_of({Region::scratch, 0, to_end.count}, to_end));
  last_moves(program).push_back(copy_of({Region::scratch, to_end.count, from_start.count}, from_start));
  return program;
}

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
  std::vector<Slice> now;  // where the block of each total distance is: the own one first, later one passing through
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
        const int sender = (rank - distance % (2 * bit) + size) % size;  // with this step it has gone this far
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
