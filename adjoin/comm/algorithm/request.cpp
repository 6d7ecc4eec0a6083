#include "adjoin/comm/algorithm/request.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

namespace {

enum class Counts : uint8_t { none, one, of_ranks, of_pairs };

Counts counts_of(Collective collective) {
  switch (collective) {
    case Collective::barrier:
      return Counts::none;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      return Counts::one;
    case Collective::all_to_all:
      return Counts::of_pairs;
    default:
      return Counts::of_ranks;
  }
}

void check_rank(const Request& request, const char* role, int rank) {
  if (rank < 0 || rank >= request.size)
    refuse(request, std::string("a ") + role + " from 0 to " + std::to_string(request.size - 1), std::to_string(rank));
}

}  // namespace

Request request_of(Collective collective, int root, int64_t count, const std::vector<int64_t>& blocks) {
  Request request{.collective = collective, .size = static_cast<int>(blocks.size()), .root = root};
  const Counts counts = counts_of(collective);
  if (counts == Counts::one) request.count = count;
  const size_t rows = counts == Counts::of_pairs ? blocks.size() : counts == Counts::of_ranks ? 1 : 0;
  request.counts.reserve(rows * blocks.size());
  for (size_t row = 0; row < rows; ++row) request.counts.insert(request.counts.end(), blocks.begin(), blocks.end());
  return request;
}

int64_t elements_of(const Request& request) {
  return request.counts.empty() ? request.count : total_of(request.counts);
}

void refuse(const Request& request, const std::string& expected, const std::string& came) {
  throw InvalidArgument("the program of " + std::string(name(request.collective)) + " on " +
                        std::to_string(request.size) + " ranks: expected " + expected + ", got " + came);
}

void check(const Request& request, int rank) {
  if (request.size < 1) refuse(request, "at least one rank", std::to_string(request.size));
  if (has_root(request.collective)) check_rank(request, "root", request.root);
  for (const int64_t number : {request.count, request.chunk})
    if (number < 0) refuse(request, "a count and a chunk that are not negative", std::to_string(number));
  const auto size = static_cast<size_t>(request.size);
  const Counts counts = counts_of(request.collective);
  const size_t expected = counts == Counts::of_pairs ? size * size : counts == Counts::of_ranks ? size : 0;
  if (expected > 0 && request.counts.size() != expected)
    refuse(request, std::to_string(expected) + " counts", std::to_string(request.counts.size()));
  for (const int64_t count : request.counts)
    if (count < 0) refuse(request, "no negative count", std::to_string(count));
  check_rank(request, "rank", rank);
}

}  // namespace adjoin::algorithm
