#include "adjoin/models/stages.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::models {

std::vector<int> balanced_stages(std::span<const double> costs, int stages) {
  const size_t n = costs.size(), k = static_cast<size_t>(std::max(stages, 0));
  require(k >= 1 && k <= n, [&] {
    return "expected from 1 to " + std::to_string(n) + " stages, one for each segment of the model, got " +
           std::to_string(stages);
  });
  std::vector<double> before{0};  // the costs of the first segments together
  for (const double cost : costs) before.push_back(before.back() + cost);
  // Of the first segments on the first stages: the least possible largest cost, and how many segments the last stage has.
  std::vector<std::vector<double>> largest(k + 1, std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<size_t>> last(k + 1, std::vector<size_t>(n + 1));
  largest[0][0] = 0;
  for (size_t stage = 1; stage <= k; ++stage)
    for (size_t end = stage; end <= n; ++end)
      for (size_t count = 1; count <= end; ++count) {
        const double cost = std::max(largest[stage - 1][end - count], before[end] - before[end - count]);
        if (cost >= largest[stage][end]) continue;
        largest[stage][end] = cost;
        last[stage][end] = count;
      }
  std::vector<int> sizes(k);
  for (size_t stage = k, end = n; stage > 0; end -= last[stage--][end])
    sizes[stage - 1] = static_cast<int>(last[stage][end]);
  return sizes;
}

}  // namespace adjoin::models
