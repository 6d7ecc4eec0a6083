#include "adjoin/comm/algorithm/program.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "adjoin/base/error.hpp"

namespace adjoin::algorithm {

namespace {

/// How many rows of all ranks' counts a request has: none where every rank has equally many, one per sender in an
/// all_to_all.
size_t rows_of(Collective collective, size_t ranks) {
  if (!has_blocks(collective)) return 0;
  return collective == Collective::all_to_all ? ranks : 1;
}

void check_rank(const Request& request, const char* role, int rank) {
  if (rank < 0 || rank >= request.size)
    refuse(request, std::string("a ") + role + " from 0 to " + std::to_string(request.size - 1), std::to_string(rank));
}

Slice mirrored(Slice slice) {
  if (slice.region != Region::scratch) slice.region = slice.region == Region::input ? Region::output : Region::input;
  return slice;
}

void reverse_moves(std::vector<LocalMove>& moves) {
  std::reverse(moves.begin(), moves.end());
  for (LocalMove& move : moves) move = copy_of(mirrored(move.to), mirrored(move.from));
}

}  // namespace

Request request_of(Collective collective, int root, int64_t count, const std::vector<int64_t>& blocks) {
  Request request{.collective = collective, .size = static_cast<int>(blocks.size()), .root = root};
  const size_t rows = rows_of(collective, blocks.size());
  if (rows == 0 && collective != Collective::barrier) request.count = count;
  request.counts.reserve(rows * blocks.size());
  for (size_t row = 0; row < rows; ++row) request.counts.insert(request.counts.end(), blocks.begin(), blocks.end());
  return request;
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
  const size_t expected = rows_of(request.collective, size) * size;
  if (expected > 0 && request.counts.size() != expected)
    refuse(request, std::to_string(expected) + " counts", std::to_string(request.counts.size()));
  for (const int64_t count : request.counts)
    if (count < 0) refuse(request, "no negative count", std::to_string(count));
  check_rank(request, "rank", rank);
}

void add_step(Program& program, std::vector<Transfer> transfers) {
  program.steps.push_back({std::move(transfers), {}});
}

std::vector<LocalMove>& last_moves(Program& program) {
  return program.steps.empty() ? program.before : program.steps.back().moves;
}

Program then(Program first, Program second) {
  first.scratch = std::max(first.scratch, second.scratch);
  std::vector<LocalMove>& between = last_moves(first);
  between.insert(between.end(), second.before.begin(), second.before.end());
  std::move(second.steps.begin(), second.steps.end(), std::back_inserter(first.steps));
  return first;
}

Program reversed(Program program) {
  std::reverse(program.steps.begin(), program.steps.end());
  std::vector<LocalMove>& carried = program.before;  // what came before a step now follows it
  for (auto step = program.steps.rbegin(); step != program.steps.rend(); ++step) {
    std::swap(step->moves, carried);
    reverse_moves(step->moves);
    for (Transfer& t : step->transfers)
      t = {t.kind == Transfer::Kind::send ? Transfer::Kind::receive : Transfer::Kind::send, t.peer, mirrored(t.slice)};
  }
  reverse_moves(program.before);
  return program;
}

int64_t total_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

int64_t start_of(std::span<const int64_t> counts, int rank) {
  return total_of(counts.first(static_cast<size_t>(rank)));
}

std::vector<int64_t> balanced_counts(int64_t count, int parts) {
  std::vector<int64_t> counts;
  counts.reserve(static_cast<size_t>(parts));
  for (int i = 0; i < parts; ++i) counts.push_back(count / parts + (i < count % parts));
  return counts;
}

Blocks::Blocks(std::span<const int64_t> counts) : starts_(counts.size() + 1) {
  std::partial_sum(counts.begin(), counts.end(), starts_.begin() + 1);
}

int64_t Blocks::count_around(int first, int n) const {
  const int begin = first % size(), end = begin + n;
  return end <= size() ? count(begin, n) : count(begin, size() - begin) + count(0, end - size());
}

}  // namespace adjoin::algorithm
