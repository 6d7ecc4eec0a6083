#include "adjoin/pipeline/balanced_stages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::pipeline {
namespace {

double largest(const std::vector<double>& costs, const std::vector<int>& sizes) {
  double most = 0;
  auto next = costs.begin();
  for (const int size : sizes) {
    most = std::max(most, std::accumulate(next, next + size, 0.0));
    next += size;
  }
  return most;
}

/// Of all ways to cut.
double least_possible(const std::vector<double>& costs, int stages) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> sizes;
  const std::function<void(int)> cut = [&](int left) {
    if (std::ssize(sizes) + 1 == stages) {
      sizes.push_back(left);
      least = std::min(least, largest(costs, sizes));
      sizes.pop_back();
      return;
    }
    for (int size = 1; size < left; ++size) {
      sizes.push_back(size);
      cut(left - size);
      sizes.pop_back();
    }
  };
  cut(static_cast<int>(costs.size()));
  return least;
}

TEST(BalancedStages, have_the_least_possible_largest_cost) {
  std::mt19937 random(1);
  for (int segments = 1; segments <= 12; ++segments)
    for (int stages = 1; stages <= segments; ++stages) {
      std::vector<double> costs(static_cast<size_t>(segments));
      for (double& cost : costs) cost = static_cast<double>(random() % 10);  // also 0, as of an embedding
      const std::vector<int> sizes = balanced_stages(costs, stages);
      ASSERT_EQ(std::ssize(sizes), stages);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), 0), segments);
      EXPECT_GE(*std::min_element(sizes.begin(), sizes.end()), 1);
      EXPECT_EQ(largest(costs, sizes), least_possible(costs, stages)) << segments << " in " << stages;
    }
}

TEST(BalancedStages, are_as_much_alike_as_the_largest_allows) {
  EXPECT_EQ(balanced_stages(std::vector<double>{0, 1, 1, 1, 1, 1, 1, 0.01}, 4), (std::vector<int>{3, 2, 1, 2}));
}

TEST(BalancedStages, refuse_more_stages_than_segments) {
  const std::vector<double> costs{1, 2};
  EXPECT_EQ(testing::thrown_by<InvalidArgument>([&] { balanced_stages(costs, 3); }),
            "expected from 1 to 2 stages, one for each segment of the model, got 3");
}

}  // namespace
}  // namespace adjoin::pipeline
