#include "adjoin/train/skipped_steps.hpp"

#include <gtest/gtest.h>

namespace adjoin::train {
namespace {

TEST(LossScale, is_halved_at_an_overflow_and_doubled_after_2000_steps_without) {
  LossScale scale;
  EXPECT_EQ(scale.value, 65536);
  EXPECT_TRUE(scale.adapt(/*overflowed=*/true));
  EXPECT_EQ(scale, (LossScale{.value = 32768, .good_steps = 0}));
  for (int step = 1; step < 2000; ++step) EXPECT_FALSE(scale.adapt(false));
  EXPECT_EQ(scale, (LossScale{.value = 32768, .good_steps = 1999}));
  EXPECT_FALSE(scale.adapt(false));
  EXPECT_EQ(scale, (LossScale{.value = 65536, .good_steps = 0}));
}

TEST(LossScale, counts_good_steps_anew_after_an_overflow) {
  LossScale scale;
  for (int step = 1; step < 2000; ++step) scale.adapt(false);
  scale.adapt(true);
  for (int step = 1; step < 2000; ++step) scale.adapt(false);
  EXPECT_EQ(scale.value, 32768);
}

TEST(LossScale, of_1_is_not_lowered) {
  LossScale scale{.value = 2};
  EXPECT_TRUE(scale.adapt(true));
  EXPECT_FALSE(scale.adapt(true));
  EXPECT_EQ(scale.value, 1);
}

}  // namespace
}  // namespace adjoin::train
