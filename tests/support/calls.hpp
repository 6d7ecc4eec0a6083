#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/communicator.hpp"

/// Collective calls of every kind, with what each rank gives and what it should get: whole numbers, to be summed.
namespace adjoin::testing {

using algorithm::Request;
using Values = std::vector<int64_t>;

inline std::string describe(const Request& q, std::string_view algorithm) {
  std::string text = std::string(name(q.collective)) + " " + std::string(algorithm) + " on " + std::to_string(q.size) +
                     " ranks, root " + std::to_string(q.root) + ", count " + std::to_string(q.count) + ", chunk " +
                     std::to_string(q.chunk) + ", counts";
  for (const int64_t count : q.counts) text.append(" ").append(std::to_string(count));
  return text;
}

/// Counts that differ, some of them zero.
inline Values uneven_counts(int size) {
  Values counts;
  for (int r = 0; r < size; ++r) counts.push_back(r % 4 == 2 ? 0 : (r * 5) % 7 + 1);
  return counts;
}

/// Equal counts, uneven ones, and none at all: of each rank, or of each pair of an all_to_all.
inline std::vector<Values> some_counts(Collective collective, int size) {
  const auto n = static_cast<size_t>(size);
  if (collective != Collective::all_to_all) return {Values(n, 3), uneven_counts(size), Values(n, 0)};
  Values uneven;
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) uneven.push_back((from * 3 + to) % 4);
  return {Values(n * n, 2), uneven, Values(n * n, 0)};
}

/// Calls on `size` ranks: counts that divide and do not, chunks that do and do not, and the given roots.
inline std::vector<Request> some_requests(Collective collective, int size, std::string_view algorithm,
                                          const std::vector<int>& roots) {
  std::vector<Request> requests;
  for (const int root : has_root(collective) ? roots : std::vector<int>{0}) {
    const Request q{.collective = collective, .size = size, .root = root};
    switch (collective) {
      case Collective::barrier:
        requests.push_back(q);
        break;
      case Collective::broadcast:
      case Collective::reduce:
      case Collective::all_reduce:
        for (const int64_t count : {0, 1, 7, 192})
          for (const int64_t chunk : algorithm == "ring" ? Values{0, 2, 16, 500} : Values{0}) {
            requests.push_back(q);
            requests.back().count = count;
            requests.back().chunk = chunk;
          }
        break;
      default:
        for (const Values& counts : some_counts(collective, size)) {
          requests.push_back(q);
          requests.back().counts = counts;
        }
    }
  }
  return requests;
}

/// Runs `check` on every algorithm of every collective.
inline void for_each_algorithm(const std::function<void(Collective, std::string_view)>& check) {
  for (int c = 0; c < kCollectives; ++c)
    for (const std::string_view algorithm : algorithm::names_of(static_cast<Collective>(c)))
      check(static_cast<Collective>(c), algorithm);
}

inline Values values_of(int64_t owner, int64_t count) {
  Values values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1000 * owner);
  return values;
}

inline Values sums_of(int size, int64_t count) {
  Values sums(static_cast<size_t>(count));
  for (int r = 0; r < size; ++r)
    for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += 1000 * r + i;
  return sums;
}

inline Values join(const std::vector<Values>& blocks) {
  Values all;
  for (const Values& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

inline Values block_of(const Values& all, const Values& counts, int rank) {
  const auto begin = all.begin() + std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  return {begin, begin + counts[static_cast<size_t>(rank)]};
}

/// One rank's part of a call: its memory before, and its output after.
struct Part {
  Values input, output, expected;
};

inline Part part_of(const Request& q, int rank) {
  const bool is_root = rank == q.root;
  const auto own = [&] { return q.counts[static_cast<size_t>(rank)]; };
  const auto total = std::accumulate(q.counts.begin(), q.counts.end(), int64_t{0});
  const auto everybodys = [&] {
    std::vector<Values> blocks;
    for (int r = 0; r < q.size; ++r) blocks.push_back(values_of(r, q.counts[static_cast<size_t>(r)]));
    return join(blocks);
  };
  const auto between = [&](int from, int to) { return values_of(100 * from + to, q.between(from, to)); };
  const auto room = [](int64_t count) { return Values(static_cast<size_t>(count)); };

  switch (q.collective) {
    case Collective::barrier:
      return {};
    case Collective::broadcast:
      return {{}, values_of(rank, q.count), values_of(q.root, q.count)};
    case Collective::reduce:
      return {values_of(rank, q.count), room(is_root ? q.count : 0), is_root ? sums_of(q.size, q.count) : Values()};
    case Collective::all_reduce:
      return {{}, values_of(rank, q.count), sums_of(q.size, q.count)};
    case Collective::gather:
      return {values_of(rank, own()), room(is_root ? total : 0), is_root ? everybodys() : Values()};
    case Collective::scatter:
      return {is_root ? everybodys() : Values(), room(own()), values_of(rank, own())};
    case Collective::all_gather:
      return {values_of(rank, own()), room(total), everybodys()};
    case Collective::reduce_scatter:
      return {values_of(rank, total), room(own()), block_of(sums_of(q.size, total), q.counts, rank)};
    case Collective::all_to_all: {
      std::vector<Values> sent, received;
      for (int peer = 0; peer < q.size; ++peer) {
        sent.push_back(between(rank, peer));
        received.push_back(between(peer, rank));
      }
      Part part{join(sent), {}, join(received)};
      part.output.resize(part.expected.size());
      return part;
    }
  }
  return {};
}

/// Calls the collective for real, from `input` to `output`.
inline void call(const Communicator& world, const Request& q, Part& part) {
  const ConstBuffer in = const_buffer(part.input);
  const Buffer out = buffer(part.output);
  switch (q.collective) {
    case Collective::barrier:
      return world.barrier();
    case Collective::broadcast:
      return world.broadcast(out, q.root);
    case Collective::reduce:
      return world.reduce(in, out, Reduction::sum, q.root);
    case Collective::all_reduce:
      return world.all_reduce(out);
    case Collective::gather:
      return world.gather(in, out, q.counts, q.root);
    case Collective::scatter:
      return world.scatter(in, out, q.counts, q.root);
    case Collective::all_gather:
      return world.all_gather(in, out, q.counts);
    case Collective::reduce_scatter:
      return world.reduce_scatter(in, out, q.counts);
    case Collective::all_to_all: {
      Values sent, received;
      for (int peer = 0; peer < q.size; ++peer) {
        sent.push_back(q.between(world.rank(), peer));
        received.push_back(q.between(peer, world.rank()));
      }
      return world.all_to_all(in, sent, out, received);
    }
  }
}

}  // namespace adjoin::testing
