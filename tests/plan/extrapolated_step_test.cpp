#include "adjoin/plan/extrapolated_step.hpp"

#include <gtest/gtest.h>

namespace adjoin::plan {
namespace {

RankPlan step_of(int64_t tokens) {
  const auto seconds = static_cast<double>(tokens);
  RankPlan rank{.weights = 100, .moments = 20, .activations = 10 * tokens, .highest = 50 + 30 * tokens};
  rank.work.push_back({.seconds = {2 + seconds, 1 + 3 * seconds, 0, 0.5},
                       .forward = {{Collective::all_gather, 2, 8 * tokens, 2}},
                       .backward = {{std::nullopt, 2, 64, 2}},
                       .sent = 4 * tokens});
  return rank;
}

TEST(ExtrapolatedStep, follows_from_two_small_ones_along_a_line) {
  const RankPlan small = step_of(3), middle = step_of(6), expected = step_of(60);
  const RankPlan large = extrapolated_step({&small, 1}, 3, {&middle, 1}, 6, 60).at(0);
  EXPECT_EQ(large.highest, expected.highest);
  EXPECT_EQ(large.activations, expected.activations);
  const StageWork& work = large.work.at(0);
  EXPECT_NEAR(work.seconds.forward, 62, 1e-9);
  EXPECT_NEAR(work.seconds.backward, 181, 1e-9);
  EXPECT_NEAR(work.seconds.waiting, 0.5, 1e-9);
  EXPECT_EQ(work.forward, expected.work[0].forward);
  EXPECT_EQ(work.backward, expected.work[0].backward);
  EXPECT_EQ(work.sent, expected.work[0].sent);
}

TEST(ExtrapolatedStep, has_room_for_activations_where_small_ones_need_most_for_gradients) {
  RankPlan small = step_of(1), middle = step_of(2);
  small.highest = middle.highest = 400;
  EXPECT_EQ(extrapolated_step({&small, 1}, 1, {&middle, 1}, 2, 100).at(0).highest, 100 + 20 + 10 * 100);
}

TEST(ExtrapolatedStep, takes_no_less_time_where_noise_made_the_smaller_one_slower) {
  const RankPlan small = step_of(3), middle = step_of(2);
  EXPECT_EQ(extrapolated_step({&small, 1}, 3, {&middle, 1}, 6, 60).at(0).work[0].seconds.forward,
            small.work[0].seconds.forward);
}

}  // namespace
}  // namespace adjoin::plan
