#include "adjoin/comm/algorithm/program.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace adjoin::algorithm {

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

}  // namespace adjoin::algorithm
