#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/schedules.hpp"

namespace adjoin::pipeline {
namespace {

using adjoin::testing::begins_by_relaxation;
using adjoin::testing::Numbers;
using adjoin::testing::random_costs;
using adjoin::testing::random_schedule;
using adjoin::testing::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string message_of(const Schedule& schedule) {
  return thrown_by<InvalidArgument>([&] { check(schedule); });
}

std::string message_of(const char* csv) {
  return thrown_by<InvalidArgument>([&] { read_schedule(csv); });
}

struct Place {
  size_t rank, index;
};

Place random_place(const Schedule& schedule, Numbers& draw) {
  const auto rank = static_cast<size_t>(draw.from(0, schedule.ranks() - 1));
  return {rank, static_cast<size_t>(draw.from(0, static_cast<int64_t>(schedule.actions[rank].size()) - 1))};
}

bool has_circle(const Schedule& schedule) {
  return !begins_by_relaxation(schedule, random_costs(/*seed=*/0, schedule.stages));
}

enum class Fault { dropped, doubled, circular, on_two_ranks };

/// A schedule with one fault of the kind. Where drawn swaps make no circle, another schedule is drawn.
Schedule broken(Fault fault, uint64_t seed) {
  Numbers draw(seed);
  for (;;) {
    Schedule schedule = random_schedule(draw.seed());
    const Place at = random_place(schedule, draw);
    auto& actions = schedule.actions[at.rank];
    const auto place = actions.begin() + static_cast<std::ptrdiff_t>(at.index);
    if (fault == Fault::dropped) {
      actions.erase(place);
      return schedule;
    }
    if (fault == Fault::doubled) {
      const Action action = *place;
      actions.insert(actions.begin() + draw.from(0, static_cast<int64_t>(actions.size())), action);
      return schedule;
    }
    if (fault == Fault::on_two_ranks && schedule.ranks() > 1) {
      const Action action = *place;
      actions.erase(place);
      auto& others = schedule.actions[(at.rank + 1) % schedule.actions.size()];
      others.insert(others.begin() + draw.from(0, static_cast<int64_t>(others.size())), action);
      return schedule;
    }
    if (fault == Fault::circular) {
      std::swap(*place, actions[static_cast<size_t>(draw.from(0, static_cast<int64_t>(actions.size()) - 1))]);
      if (has_circle(schedule)) return schedule;
    }
  }
}

TEST(CheckSchedule, refuses_500_broken_ones) {
  constexpr Fault kFaults[] = {Fault::dropped, Fault::doubled, Fault::circular, Fault::on_two_ranks};
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Fault fault = kFaults[seed % 4];
    const std::string message = message_of(broken(fault, seed));
    if (fault == Fault::circular)
      EXPECT_THAT(message, HasSubstr("the actions wait in a circle: rank ")) << seed;
    else if (fault == Fault::dropped)
      EXPECT_THAT(message, ::testing::AnyOf(HasSubstr(" without \""), HasSubstr(" has no action"))) << seed;
    else if (fault == Fault::doubled)
      EXPECT_THAT(message, HasSubstr("has this action already")) << seed;
    else
      EXPECT_THAT(message, ::testing::AnyOf(HasSubstr(" is on rank "), HasSubstr(" has no action"))) << seed;
    EXPECT_THAT(message, AllOf(HasSubstr("rank "), Not(HasSubstr("\n")))) << seed;
  }
}

TEST(CheckSchedule, accepts_random_right_ones) {
  for (uint64_t seed = 0; seed < 500; ++seed) EXPECT_NO_THROW(check(random_schedule(seed))) << seed;
}

TEST(CheckSchedule, finds_the_circles_that_there_are_and_no_others) {
  int circles = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Numbers draw(seed);
    Schedule schedule = random_schedule(seed);
    const Place at = random_place(schedule, draw);
    auto& actions = schedule.actions[at.rank];
    if (at.index + 1 < actions.size()) std::swap(actions[at.index], actions[at.index + 1]);
    const bool is_circular = has_circle(schedule);
    circles += is_circular ? 1 : 0;
    EXPECT_EQ(message_of(schedule) != "nothing was thrown", is_circular) << seed;
  }
  EXPECT_GT(circles, 50);
  EXPECT_LT(circles, 450);
}

TEST(CheckSchedule, names_rank_and_column) {
  EXPECT_EQ(message_of("0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,,"), "rank 1 ends at column 4 without \"1B1\"");
  EXPECT_EQ(message_of("0F0,0I0,0W0\n,1F0,,1I0"), "rank 1 ends at column 4 without \"1W0\"");
  EXPECT_EQ(message_of("0F0,0W0"), "rank 0 ends at column 2 without \"0I0\"");
  EXPECT_EQ(message_of("0B0"), "rank 0 ends at column 1 without \"0F0\"");
  EXPECT_EQ(message_of("0F0,,0B0,,0F0"), "rank 0, column 5 (\"0F0\"): column 1 has this action already");
  EXPECT_EQ(message_of("0F0,0B0,0W0"), "rank 0, column 3 (\"0W0\"): column 2 has \"0B0\", and B does both I and W");
  EXPECT_EQ(message_of("0F0,0I0,0B0"), "rank 0, column 3 (\"0B0\"): column 2 has \"0I0\", and B does both I and W");
  EXPECT_EQ(message_of("0F0,0B0,1F0\n,1B0"), "rank 1, column 2 (\"1B0\"): stage 1 is on rank 0");
  EXPECT_EQ(message_of("0F0,0B0\n\n1F0,1B0"), "rank 1 has no action");
  EXPECT_EQ(message_of("0F0,0B0\n2F0,2B0"), "the schedule has a stage 2 on rank 1, but no stage 1");
}

TEST(CheckSchedule, tells_the_circle) {
  EXPECT_EQ(message_of(",0B0,,0F0"),
            "the actions wait in a circle: rank 0, column 2 (\"0B0\") waits for \"0F0\", which comes later on rank 0");
  // Rank 0 wants the first micro-batch back before it gives the second; rank 1 does the second first.
  EXPECT_EQ(message_of("0F0,0I0,0F1,0B1,0W0\n,1F1,1F0,1I0,1B1,1W0"),
            "the actions wait in a circle: rank 0, column 2 (\"0I0\") waits for \"1I0\", which comes later on rank 1; "
            "rank 1, column 2 (\"1F1\") waits for \"0F1\", which comes later on rank 0");
  EXPECT_EQ(message_of("0F0,0B0\n1B0,1F0\n2F0,2B0"),
            "the actions wait in a circle: rank 1, column 1 (\"1B0\") waits for \"1F0\", which comes later on rank 1");
}

TEST(CheckSchedule, refuses_what_no_table_can_say) {
  EXPECT_THAT(message_of(Schedule{}), HasSubstr("a schedule needs at least 1 rank"));
  const Schedule right = make_schedule("1f1b", 2, 2);
  Schedule wrong = right;
  wrong.rank_of.pop_back();
  EXPECT_THAT(message_of(wrong), HasSubstr("names ranks for 1"));
  wrong = right;
  wrong.rank_of[1] = 2;
  EXPECT_THAT(message_of(wrong), HasSubstr("stage 1 is on rank 2, expected 0 to 1"));
  wrong = right;
  wrong.actions[1][2].stage = 2;
  EXPECT_THAT(message_of(wrong), HasSubstr("rank 1, column 3 (\"2F1\"): expected stages from 0 to 1"));
  wrong = right;
  wrong.actions[0][0].micro_batch = -1;
  EXPECT_THAT(message_of(wrong), HasSubstr("rank 0, column 1 (\"0F-1\"): expected micro-batches from 0 to 1"));
  wrong = right;
  wrong.stages = wrong.micro_batches = 1 << 20;
  wrong.rank_of.resize(1 << 20);
  EXPECT_THAT(message_of(wrong), HasSubstr("more than the 16,777,216 actions"));
}

}  // namespace
}  // namespace adjoin::pipeline
