#include "adjoin/train/validation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "adjoin/base/error.hpp"

namespace adjoin::train {
namespace {

TEST(HoldOut, gives_each_sample_to_one_side_by_the_seed) {
  const HeldOut held = hold_out(100, 0.2, 7);
  EXPECT_EQ(held.train.size(), 80u);
  EXPECT_EQ(held.validation.size(), 20u);
  std::vector<int64_t> all;
  std::merge(held.train.begin(), held.train.end(), held.validation.begin(), held.validation.end(),
             std::back_inserter(all));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<int64_t>(i));
  EXPECT_EQ(hold_out(100, 0.2, 7).validation, held.validation);
  EXPECT_NE(hold_out(100, 0.2, 8).validation, held.validation);
}

TEST(HoldOut, leaves_a_sample_on_each_side) {
  EXPECT_EQ(hold_out(2, 0.01, 1).validation.size(), 1u);
  EXPECT_EQ(hold_out(3, 0.99, 1).train.size(), 1u);
  EXPECT_TRUE(hold_out(3, 0, 1).validation.empty());
  EXPECT_THROW(hold_out(1, 0.5, 1), InvalidArgument);
}

TEST(Validations, count_how_many_were_no_better_than_the_best) {
  Validations validations;
  EXPECT_TRUE(validations.count(10, 0.5));
  EXPECT_FALSE(validations.count(20, 0.5));
  EXPECT_FALSE(validations.count(30, 0.6));
  EXPECT_EQ(validations.since_best, 2);
  EXPECT_TRUE(validations.count(40, 0.4));
  EXPECT_EQ(validations.best_step, 40);
  EXPECT_EQ(validations.since_best, 0);
}

}  // namespace
}  // namespace adjoin::train
