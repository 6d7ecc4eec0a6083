#include "adjoin/train/skipped_steps.hpp"

#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::train {
namespace {

using testing::thrown_by;

TEST(SkippedSteps, end_a_run_at_the_tenth_in_a_row) {
  SkippedSteps skipped;
  for (int64_t step = 1; step <= 9; ++step) skipped.count(step, /*skipped=*/true, /*lowered_scale=*/false);
  skipped.count(10, false, false);
  EXPECT_EQ(skipped, (SkippedSteps{.all = 9, .in_a_row = 0}));
  for (int64_t step = 11; step <= 19; ++step) skipped.count(step, true, false);
  EXPECT_EQ(thrown_by<Error>([&] { skipped.count(20, true, false); }),
            "step 20: the gradients of 10 steps in a row were not finite; a lower --lr may help");
}

TEST(SkippedSteps, that_lower_the_loss_scale_are_none_of_the_ten) {
  SkippedSteps skipped;
  for (int64_t step = 1; step <= 9; ++step) skipped.count(step, true, false);
  for (int64_t step = 10; step <= 30; ++step) skipped.count(step, true, /*lowered_scale=*/true);
  EXPECT_EQ(skipped, (SkippedSteps{.all = 30, .in_a_row = 9}));
}

}  // namespace
}  // namespace adjoin::train
