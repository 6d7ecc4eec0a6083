#include "adjoin/train/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace adjoin::train {
namespace {

TEST(LearningRate, rises_to_its_peak_and_falls_along_half_a_cosine) {
  Configuration c;
  c.lr = 2;
  c.warmup = 0.1;
  c.lr_end = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, 100), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(c, 8, 100), 1.8);
  EXPECT_DOUBLE_EQ(learning_rate(c, 9, 100), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 10, 100), 2.0);
  EXPECT_NEAR(learning_rate(c, 55, 100), 1.5, 1e-12);
  EXPECT_NEAR(learning_rate(c, 99, 100), 1.0 + (1 + std::cos(std::acos(-1.0) * 89 / 90)) / 2, 1e-12);
}

TEST(LearningRate, of_the_last_step_is_not_its_end) {
  Configuration c;
  c.lr = 2;
  c.warmup = 0.1;
  c.lr_end = 0;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, 1), 2.0);  // of a run of one step all of it
  EXPECT_GT(learning_rate(c, 1, 2), 0.1);
  c.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, 2), 2.0);
  EXPECT_NEAR(learning_rate(c, 1, 2), 1.0, 1e-12);
  c.warmup = 1;
  EXPECT_DOUBLE_EQ(learning_rate(c, 1, 2), 2.0);
}

TEST(LearningRate, falls_along_a_line_to_a_step_after_the_last) {
  Configuration c;
  c.schedule = RateSchedule::linear;
  c.lr = 2;
  c.warmup = 0.1;
  c.lr_end = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, 100), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(c, 10, 100), 2.0);
  EXPECT_NEAR(learning_rate(c, 55, 100), 1.5, 1e-12);
  EXPECT_NEAR(learning_rate(c, 99, 100), 1 + 1.0 / 90, 1e-12);
}

TEST(LearningRate, that_is_constant_stays_after_the_warm_up) {
  Configuration c;
  c.schedule = RateSchedule::constant;
  c.lr = 2;
  c.warmup = 0.1;
  c.lr_end = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate(c, 0, 100), 0.2);
  for (const int64_t step : {9, 10, 55, 99}) EXPECT_DOUBLE_EQ(learning_rate(c, step, 100), 2.0);
}

}  // namespace
}  // namespace adjoin::train
