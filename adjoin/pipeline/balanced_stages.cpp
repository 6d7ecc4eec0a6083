#include "adjoin/pipeline/balanced_stages.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::pipeline {

std::vector<int> balanced_stages(std::span<const double> costs, int stages) {
  const size_t n = costs.size(), k = static_cast<size_t>(std::max(stages, 0));
  require(k >= 1 && k <= n, [&] {
    return "expected from 1 to " + std::to_string(n) + " stages, one for each segment of the model, got " +
           std::to_string(stages);
  });
  std::vector<double> before{0};  // sums of costs: before[n] is that of the first n segments
  for (const double cost : costs) before.push_back(before.back() + cost);
  const auto cost_of = [&](size_t end, size_t count) { return before[end] - before[end - count]; };
  // For the first segments on the first stages: the smallest value that `joined` gives for the stages' costs one after another,
  // and how many segments the last of these stages has.
  std::vector<std::vector<size_t>> last(k + 1, std::vector<size_t>(n + 1));
  const auto least = [&](const auto& joined) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> best(k + 1, std::vector<double>(n + 1, kNone));
    best[0][0] = 0;
    for (size_t stage = 1; stage <= k; ++stage)
      for (size_t end = stage; end <= n; ++end)
        for (size_t count = 1; count <= end; ++count) {
          const double value = joined(best[stage - 1][end - count], cost_of(end, count));
          if (value >= best[stage][end]) continue;
          best[stage][end] = value;
          last[stage][end] = count;
        }
    return best[k][n];
  };
  const double largest = least([](double first, double cost) { return std::max(first, cost); });
  // Of the cuts that reach it, the one with the most equal stages.
  least([&](double first, double cost) {
    return cost > largest ? std::numeric_limits<double>::infinity() : first + cost * cost;
  });
  std::vector<int> sizes(k);
  for (size_t stage = k, end = n; stage > 0; end -= last[stage--][end])
    sizes[stage - 1] = static_cast<int>(last[stage][end]);
  return sizes;
}

}  // namespace adjoin::pipeline
