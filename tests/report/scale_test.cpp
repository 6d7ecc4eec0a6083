#include "adjoin/report/scale.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace adjoin::report {
namespace {

Series waves(int64_t steps) {
  Series series;
  for (int64_t step = 1; step <= steps; ++step) {
    series.steps.push_back(step);
    series.values.push_back(std::sin(static_cast<double>(step)));
  }
  return series;
}

TEST(Extremes, keep_a_single_high_and_a_single_low_value_of_a_long_run) {
  Series series = waves(100'000);
  series.values[56'788] = 40;
  series.values[56'790] = -40;
  const auto kept = extremes(series, scale_of_steps(1, 100'000), 200);
  EXPECT_LE(kept.size(), 402u);
  for (const size_t place : {size_t{0}, size_t{56'788}, size_t{56'790}, size_t{99'999}})
    EXPECT_TRUE(std::ranges::binary_search(kept, place)) << place;
}

TEST(Extremes, of_a_short_run_are_all_its_values) {
  EXPECT_EQ(extremes(waves(30), scale_of_steps(1, 30), 200).size(), 30u);
  EXPECT_EQ(extremes(waves(30), scale_of_steps(1, 100'000), 200).size(), 30u) << "beside a long one";
}

TEST(Means, of_a_part_are_its_sum_over_its_steps) {
  const Series series{.steps = {1, 2, 9, 10}, .values = {1, 3, 5, 9}};
  EXPECT_EQ(means(series, scale_of_steps(1, 10), 2), (std::vector<std::pair<double, double>>{{1.5, 2}, {9.5, 7}}));
}

TEST(Scales, have_round_marks_and_room_for_all_values) {
  const Scale scale = scale_of(0.12, 0.5, 0.88);
  EXPECT_LT(scale.low, 0.12);
  EXPECT_GT(scale.high, 0.88);
  ASSERT_EQ(scale.ticks.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(scale.ticks[i], 0.2 * static_cast<double>(i + 1), 1e-12);
}

TEST(Scales, are_logarithmic_where_values_differ_a_thousandfold_and_most_are_small) {
  const Scale scale = scale_of(1, 2, 65536);
  EXPECT_TRUE(scale.is_logarithmic);
  EXPECT_NEAR(scale.at(std::sqrt(65536.0)), 0.5, 1e-12);
  EXPECT_FALSE(scale_of(0, 2, 65536).is_logarithmic);
  EXPECT_FALSE(scale_of(1, 40000, 65536).is_logarithmic);
}

TEST(Scales, of_one_value_have_it_in_the_middle) {
  for (const double value : {0.0, 0.25, -3e7, 1e308}) {
    const Scale scale = scale_of(value, value, value);
    EXPECT_LT(scale.low, scale.high) << value;
    EXPECT_NEAR(scale.at(value), 0.5, 1e-6) << value;
  }
}

TEST(Marks, are_short) {
  EXPECT_EQ(mark_text(0.25), "0.25");
  EXPECT_EQ(mark_text(12'500), "12.5k");
  EXPECT_EQ(mark_text(-2e9), "-2G");
  EXPECT_EQ(mark_text(1e-6), "1e-06");
  EXPECT_EQ(mark_text(1e300), "1e+300");
}

}  // namespace
}  // namespace adjoin::report
