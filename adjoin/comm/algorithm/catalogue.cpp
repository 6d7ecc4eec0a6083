#include "adjoin/comm/algorithm/catalogue.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/all_gather.hpp"
#include "adjoin/comm/algorithm/all_reduce.hpp"
#include "adjoin/comm/algorithm/all_to_all.hpp"
#include "adjoin/comm/algorithm/barrier.hpp"
#include "adjoin/comm/algorithm/broadcast.hpp"
#include "adjoin/comm/algorithm/gather.hpp"
#include "adjoin/comm/algorithm/reduce.hpp"
#include "adjoin/comm/algorithm/reduce_scatter.hpp"
#include "adjoin/comm/algorithm/scatter.hpp"

namespace adjoin::algorithm {

namespace {

using Counts = std::span<const int64_t>;

template <Program (*make)(int, int)>
Program of_size(const Request& request, int rank) {
  return make(rank, request.size);
}
template <Program (*make)(int, int, int64_t)>
Program of_count(const Request& request, int rank) {
  return make(rank, request.size, request.count);
}
template <Program (*make)(int, int, int, int64_t)>
Program of_root_and_count(const Request& request, int rank) {
  return make(rank, request.size, request.root, request.count);
}
template <Program (*make)(int, int, Counts)>
Program of_counts(const Request& request, int rank) {
  return make(rank, request.size, request.counts);
}
template <Program (*make)(int, int, int, Counts)>
Program of_root_and_counts(const Request& request, int rank) {
  return make(rank, request.size, request.root, request.counts);
}

Program broadcast_by_ring(const Request& request, int rank) {
  return ring_broadcast(rank, request.size, request.root, request.count, request.chunk);
}
Program reduce_naively(const Request& request, int rank) {
  return naive_reduce(rank, request.size, request.root, request.count);
}
Program all_to_all_in_pairs(const Request& request, int rank) {
  const auto size = static_cast<size_t>(request.size), me = static_cast<size_t>(rank);
  std::vector<int64_t> received;
  for (size_t sender = 0; sender < size; ++sender) received.push_back(request.counts[sender * size + me]);
  return pairwise_all_to_all(rank, request.size, Counts(request.counts).subspan(me * size, size), received);
}

struct Entry {
  Collective collective;
  std::string_view name;
  Program (*make)(const Request&, int rank);
};

constexpr Entry kEntries[] = {
    {Collective::barrier, "dissemination", of_size<dissemination_barrier>},
    {Collective::broadcast, "naive", of_root_and_count<naive_broadcast>},
    {Collective::broadcast, "tree", of_root_and_count<tree_broadcast>},
    {Collective::broadcast, "ring", broadcast_by_ring},
    {Collective::reduce, "naive", reduce_naively},
    {Collective::reduce, "tree", of_root_and_count<tree_reduce>},
    {Collective::all_reduce, "naive", of_count<naive_all_reduce>},
    {Collective::all_reduce, "butterfly", of_count<butterfly_all_reduce>},
    {Collective::all_reduce, "ring", of_count<ring_all_reduce>},
    {Collective::all_reduce, "rabenseifner", of_count<rabenseifner_all_reduce>},
    {Collective::gather, "naive", of_root_and_counts<naive_gather>},
    {Collective::gather, "tree", of_root_and_counts<tree_gather>},
    {Collective::scatter, "naive", of_root_and_counts<naive_scatter>},
    {Collective::scatter, "tree", of_root_and_counts<tree_scatter>},
    {Collective::all_gather, "naive", of_counts<naive_all_gather>},
    {Collective::all_gather, "tree", of_counts<tree_all_gather>},
    {Collective::all_gather, "ring", of_counts<ring_all_gather>},
    {Collective::all_gather, "doubling", of_counts<doubling_all_gather>},
    {Collective::all_gather, "bruck", of_counts<bruck_all_gather>},
    {Collective::reduce_scatter, "ring", of_counts<ring_reduce_scatter>},
    {Collective::reduce_scatter, "halving", of_counts<halving_reduce_scatter>},
    {Collective::all_to_all, "pairwise", all_to_all_in_pairs},
    {Collective::all_to_all, "bruck", of_counts<bruck_all_to_all>},
};

using Names = std::array<std::vector<std::string_view>, kCollectives>;

Names collect_names() {
  Names names;
  for (const Entry& entry : kEntries) names[static_cast<size_t>(entry.collective)].push_back(entry.name);
  return names;
}

[[noreturn]] void fail(const Request& request, const std::string& expected, const std::string& came) {
  throw InvalidArgument("the program of " + std::string(name(request.collective)) + " on " +
                        std::to_string(request.size) + " ranks: expected " + expected + ", got " + came);
}

size_t counts_expected(const Request& request) {
  const auto size = static_cast<size_t>(request.size);
  switch (request.collective) {
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return size;
    case Collective::all_to_all:
      return size * size;
    default:
      return 0;
  }
}

void check_rank(const Request& request, const char* role, int rank) {
  if (rank < 0 || rank >= request.size)
    fail(request, std::string("a ") + role + " from 0 to " + std::to_string(request.size - 1), std::to_string(rank));
}

void check_arguments(const Request& request) {
  if (request.size < 1) fail(request, "at least one rank", std::to_string(request.size));
  if (has_root(request.collective)) check_rank(request, "root", request.root);
  for (const int64_t number : {request.count, request.chunk})
    if (number < 0) fail(request, "a count and a chunk that are not negative", std::to_string(number));
  if (const size_t expected = counts_expected(request); expected > 0 && request.counts.size() != expected)
    fail(request, std::to_string(expected) + " counts", std::to_string(request.counts.size()));
  for (const int64_t count : request.counts)
    if (count < 0) fail(request, "no negative count", std::to_string(count));
}

}  // namespace

Request request_of(Collective collective, int root, int64_t count, const std::vector<int64_t>& blocks) {
  Request request{.collective = collective, .size = static_cast<int>(blocks.size()), .root = root};
  switch (collective) {
    case Collective::barrier:
      break;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      request.count = count;
      break;
    case Collective::all_to_all:
      request.counts.reserve(blocks.size() * blocks.size());
      for (size_t r = 0; r < blocks.size(); ++r)
        request.counts.insert(request.counts.end(), blocks.begin(), blocks.end());
      break;
    default:
      request.counts = blocks;
  }
  return request;
}

int64_t elements_of(const Request& request) {
  return request.counts.empty() ? request.count : total_of(request.counts);
}

std::span<const std::string_view> names_of(Collective collective) {
  static const Names names = collect_names();
  return names[static_cast<size_t>(collective)];
}

bool is_pipeline(Collective collective, std::string_view algorithm) {
  return collective == Collective::broadcast && algorithm == "ring";
}

std::string_view known_name(Collective collective, std::string_view algorithm) {
  const auto names = names_of(collective);
  const auto found = std::find(names.begin(), names.end(), algorithm);
  return found == names.end() ? std::string_view() : *found;
}

std::string list_of_names(Collective collective) {
  std::string list;
  for (const std::string_view known : names_of(collective)) list += (list.empty() ? "" : ", ") + std::string(known);
  return list;
}

void check_request(const Request& request, std::string_view algorithm, int rank) {
  check_arguments(request);
  check_rank(request, "rank", rank);
  if (known_name(request.collective, algorithm).empty())
    fail(request, "an algorithm of " + list_of_names(request.collective), "'" + std::string(algorithm) + "'");
}

Program program_of(const Request& request, std::string_view algorithm, int rank) {
  check_request(request, algorithm, rank);
  for (const Entry& entry : kEntries)
    if (entry.collective == request.collective && entry.name == algorithm) return entry.make(request, rank);
  return {};
}

}  // namespace adjoin::algorithm
