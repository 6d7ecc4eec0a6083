#include "adjoin/comm/algorithm/program.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace adjoin::algorithm {

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

namespace {

Slice mirrored(Slice slice) {
  if (slice.region != Region::scratch) slice.region = slice.region == Region::input ? Region::output : Region::input;
  return slice;
}

void reverse_moves(std::vector<LocalMove>& moves) {
  std::reverse(moves.begin(), moves.end());
  for (LocalMove& move : moves) move = copy_of(mirrored(move.to), mirrored(move.from));
}

}  // namespace

Program reversed(Program program) {
  std::reverse(program.steps.begin(), program.steps.end());
  std::vector<LocalMove>& carried = program.before;  // what came before a step comes behind it
  for (auto step = program.steps.rbegin(); step != program.steps.rend(); ++step) {
    std::swap(step->moves, carried);
    reverse_moves(step->moves);
    for (Transfer& t : step->transfers)
      t = {t.kind == Transfer::Kind::send ? Transfer::Kind::receive : Transfer::Kind::send, t.peer, mirrored(t.slice)};
  }
  reverse_moves(program.before);
  return program;
}

std::vector<int64_t> starts_of(std::span<const int64_t> counts) {
  std::vector<int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), int64_t{0});
  return starts;
}

int64_t total_of(std::span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
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
