#include "adjoin/data/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace adjoin::data {
namespace {

// The first numbers of the author's own program for seed 1234567 (Vigna, splitmix64.c).
TEST(SplitMix64, gives_the_published_numbers) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(SplitMix64, gives_streams_that_differ) {
  EXPECT_NE(SplitMix64(1, 0).next(), SplitMix64(1, 1).next());
  EXPECT_NE(SplitMix64(1, 0).next(), SplitMix64(0, 1).next());
  EXPECT_EQ(SplitMix64(3, 4).next(), SplitMix64(3, 4).next());
}

TEST(SplitMix64, draws_below_a_bound_evenly) {
  SplitMix64 random(7);
  std::map<uint64_t, int> seen;
  for (int i = 0; i < 6000; ++i) ++seen[random.below(6)];
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [value, count] : seen) EXPECT_NEAR(count, 1000, 150) << value;  // 5 standard deviations of 29
}

TEST(Shuffle, gives_every_order_of_three_about_as_often) {
  std::map<std::vector<int>, int> seen;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    std::vector<int> values = {1, 2, 3};
    SplitMix64 random(seed, 0);
    shuffle(values, random);
    ++seen[values];
  }
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace adjoin::data
