#include "adjoin/pipeline/simulation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/schedules.hpp"

namespace adjoin::pipeline {
namespace {

using adjoin::testing::begins_by_relaxation;
using adjoin::testing::random_costs;
using adjoin::testing::random_schedule;
using adjoin::testing::thrown_by;
using ::testing::HasSubstr;

constexpr int kMostRanks = 8, kMostMicroBatches = 24, kMostChunks = 3;

/// Of all stages of a rank. Six divides each, so that those of one of up to three stages are whole and all sums exact.
constexpr StageCosts kCosts[] = {{6, 6, 6},  {6, 12, 6},  {12, 6, 6},   {6, 6, 0},   {18, 12, 12},
                                 {6, 18, 0}, {24, 30, 6}, {60, 66, 54}, {6, 12, 18}, {12, 6, 12}};

template <class Function>
void for_all_numbers(std::string_view name, const Function& function) {
  for (int p = 1; p <= kMostRanks; ++p)
    for (int m = 1; m <= kMostMicroBatches; ++m)
      for (int v = 1; v <= (name == "interleaved" ? kMostChunks : 1); ++v) function(p, m, v);
}

/// Expects the makespan that leaves `idle` of each rank's time beside its work, and the bubble that this is.
void expect_idle(std::string_view name, int p, int m, int v, const StageCosts& costs, double idle) {
  const Schedule schedule = make_schedule(name, p, m, v);
  const Timeline timeline = simulate(schedule, equal_costs(schedule, costs));
  const double busy = m * (costs.forward + costs.input + costs.weight), bubble = idle / (busy + idle);
  EXPECT_EQ(timeline.makespan, busy + idle) << name << " " << p << " " << m << " " << v;
  EXPECT_NEAR(timeline.bubble, bubble, 1e-12 * bubble);
  const auto formula = bubble_formula(name, p, m, v, costs);
  ASSERT_TRUE(formula.has_value());
  EXPECT_NEAR(*formula, bubble, 1e-12 * bubble);
}

TEST(Simulation, has_the_bubble_of_the_formula) {
  for (const StageCosts& costs : kCosts) {
    const auto& [f, i, w] = costs;
    const double all = f + i + w;
    for (const char* name : {"gpipe", "1f1b"})
      for_all_numbers(name, [&](int p, int m, int v) { expect_idle(name, p, m, v, costs, (p - 1) * all); });
    for_all_numbers("interleaved", [&](int p, int m, int v) {
      if (m % p == 0) expect_idle("interleaved", p, m, v, costs, (p - 1) * all / v);
    });
    for_all_numbers("zb-h1", [&, f = f, i = i, w = w](int p, int m, int v) {
      if (m >= p && w <= std::min(f, i)) expect_idle("zb-h1", p, m, v, costs, (p - 1) * (f + i - w));
    });
  }
}

TEST(Simulation, of_zb_h1_has_the_bubble_of_the_formula_for_all_costs_that_it_names) {
  for (int f = 0; f <= 5; ++f)
    for (int i = 0; i <= 5; ++i)
      for (int w = 0; w <= std::min(f, i); ++w)
        for (int p = 1; p <= 5; ++p)
          for (int m = p; m <= 9 && f + i > 0; ++m)
            expect_idle("zb-h1", p, m, 1, {static_cast<double>(f), static_cast<double>(i), static_cast<double>(w)},
                        (p - 1) * (f + i - w));
}

TEST(Simulation, of_zb_h1_is_never_longer_than_of_1f1b) {
  for (const StageCosts& costs : kCosts)
    for_all_numbers("zb-h1", [&](int p, int m, int) {
      const Schedule zero = make_schedule("zb-h1", p, m), one = make_schedule("1f1b", p, m);
      EXPECT_LE(simulate(zero, equal_costs(zero, costs)).makespan, simulate(one, equal_costs(one, costs)).makespan);
    });
}

TEST(Simulation, has_as_many_in_flight_as_the_table_says) {
  for (const std::string_view name : schedule_names())
    for_all_numbers(name, [&](int p, int m, int v) {
      const Schedule schedule = make_schedule(name, p, m, v);
      const Timeline timeline = simulate(schedule, equal_costs(schedule, {}));
      for (int r = 0; r < p; ++r) {
        const int most = name == "gpipe"         ? m
                         : name == "1f1b"        ? std::min(m, p - r)
                         : name == "interleaved" ? std::min(v * m, 2 * (p - 1 - r) + (v - 1) * p + 1)
                                                 : std::min(m, p);
        const int came = timeline.most_in_flight[static_cast<size_t>(r)];
        if (name == "interleaved" && m % p != 0)
          EXPECT_LE(came, most) << p << " " << m << " " << v << " rank " << r;
        else
          EXPECT_EQ(came, most) << name << " " << p << " " << m << " " << v << " rank " << r;
      }
    });
}

TEST(Simulation, knows_no_formula_where_none_holds) {
  EXPECT_FALSE(bubble_formula("interleaved", 4, 6, 2, {}));
  EXPECT_FALSE(bubble_formula("zb-h1", 4, 3, 1, {}));
  EXPECT_FALSE(bubble_formula("zb-h1", 4, 8, 1, {1, 1, 1.5}));
  EXPECT_FALSE(bubble_formula("zb-h1", 4, 8, 1, {0.5, 1, 1}));
  EXPECT_FALSE(bubble_formula("my.csv", 4, 8, 1, {}));
  EXPECT_FALSE(bubble_formula("gpipe", 4, 8, 1, {0, 0, 0}));
}

TEST(Simulation, is_what_relaxation_finds) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Schedule schedule = random_schedule(seed);
    const Costs costs = random_costs(seed + 1, schedule.stages);
    const Timeline timeline = simulate(schedule, costs);
    const auto expected = begins_by_relaxation(schedule, costs);
    ASSERT_TRUE(expected.has_value()) << seed;
    EXPECT_EQ(timeline.begins, *expected) << seed;
    double makespan = 0, idle = 0;
    for (size_t r = 0; r < expected->size(); ++r)
      for (size_t i = 0; i < (*expected)[r].size(); ++i) {
        const Action& action = schedule.actions[r][i];
        const double cost = costs.stages[static_cast<size_t>(action.stage)].of(action.kind);
        makespan = std::max(makespan, (*expected)[r][i] + cost);
        idle -= cost;
      }
    idle += makespan * schedule.ranks();
    EXPECT_EQ(timeline.makespan, makespan) << seed;
    EXPECT_DOUBLE_EQ(timeline.bubble, idle / (makespan * schedule.ranks())) << seed;
  }
}

TEST(Simulation, of_known_schedules_is_what_relaxation_finds) {
  for (const std::string_view name : schedule_names())
    for (int p = 1; p <= 4; ++p)
      for (int m = 1; m <= 6; ++m) {
        const Schedule schedule = make_schedule(name, p, m, name == "interleaved" ? 2 : 1);
        const Costs costs = random_costs(static_cast<uint64_t>(100 * p + m), schedule.stages);
        EXPECT_EQ(simulate(schedule, costs).begins, begins_by_relaxation(schedule, costs).value());
      }
}

TEST(Simulation, counts_a_transfer_between_ranks_alone) {
  const Costs costs{.stages = {{2, 1, 1}, {2, 1, 1}}, .transfer = 10};
  const Timeline apart = simulate(read_schedule("0F0,0B0\n1F0,1B0"), costs);
  EXPECT_EQ(apart.begins[0], (std::vector<double>{0, 26}));  // 2, 10, 2 and 2 on rank 1, 10
  EXPECT_EQ(apart.begins[1], (std::vector<double>{12, 14}));
  EXPECT_EQ(apart.makespan, 28);
  EXPECT_DOUBLE_EQ(apart.bubble, 48.0 / 56);
  const Timeline together = simulate(read_schedule("0F0,1F0,1B0,0B0"), costs);
  EXPECT_EQ(together.makespan, 8);
  EXPECT_EQ(together.bubble, 0);
  EXPECT_EQ(together.most_in_flight, std::vector<int>{2});
}

TEST(Simulation, does_not_occupy_a_rank_by_its_transfers) {
  // Rank 0 computes on while its first result travels; the second one follows that, as both go to the same rank.
  const Timeline timeline =
      simulate(read_schedule("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1"), {.stages = {{1, 1, 0}, {1, 1, 0}}, .transfer = 5});
  EXPECT_EQ(timeline.begins[0], (std::vector<double>{0, 1, 18, 23}));
  EXPECT_EQ(timeline.begins[1], (std::vector<double>{6, 11, 12, 13}));
}

TEST(Simulation, keeps_activations_until_the_weight_where_that_is_apart) {
  const auto most = [](const char* csv) {
    const Schedule schedule = read_schedule(csv);
    return simulate(schedule, equal_costs(schedule, {})).most_in_flight;
  };
  EXPECT_EQ(most("0F0,0B0,0F1,0B1"), std::vector<int>{1});
  EXPECT_EQ(most("0F0,0I0,0F1,0I1,0W0,0W1"), std::vector<int>{2});
  EXPECT_EQ(most("0F0,0I0,0W0,0F1,0I1,0W1"), std::vector<int>{1});
}

TEST(Simulation, of_what_costs_nothing_takes_no_time) {
  const Schedule schedule = make_schedule("1f1b", 3, 4);
  const Timeline timeline = simulate(schedule, equal_costs(schedule, {0, 0, 0}));
  EXPECT_EQ(timeline.makespan, 0);
  EXPECT_EQ(timeline.bubble, 0);
}

TEST(Simulation, refuses_costs_that_are_none) {
  const Schedule schedule = make_schedule("1f1b", 2, 2);
  const auto refusal = [&](const Costs& costs) {
    return thrown_by<InvalidArgument>([&] { simulate(schedule, costs); });
  };
  EXPECT_EQ(refusal({.stages = {{}}}), "expected costs of 2 stages, as many as the schedule has, got 1");
  EXPECT_THAT(refusal({.stages = {{}, {-1, 1, 1}}}), HasSubstr("forward of stage 1 costs -1, expected 0 to 1e+100"));
  EXPECT_THAT(refusal({.stages = {{1, std::nan(""), 1}, {}}}), HasSubstr("input of stage 0 costs nan"));
  EXPECT_THAT(refusal({.stages = {{1, 1, std::numeric_limits<double>::infinity()}, {}}}), HasSubstr("costs inf"));
  EXPECT_THAT(refusal({.stages = {{}, {}}, .transfer = -2}), HasSubstr("a transfer costs -2"));
}

TEST(Simulation, is_linear_in_the_actions) {
  const Schedule schedule = make_schedule("zb-h1", 256, 512);
  const Timeline timeline = simulate(schedule, equal_costs(schedule, {}));
  EXPECT_EQ(timeline.makespan, 3 * 512 + 255);
}

}  // namespace
}  // namespace adjoin::pipeline
