#include "adjoin/lab/measure/collectives.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::measure {
namespace {

using ::testing::ElementsAre;
using testing::for_each_world;

constexpr Effort kShort{.turns = 3, .least_turns = 3, .seconds = 0.001, .most_calls = 5};

TEST(Measure, times_every_collective_and_says_what_bounds_it) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const std::vector<int64_t> sizes{64, 10000};
    for (const Collective collective : collectives_from("")) {
      const auto results = measure_collective(world, collective, sizes, kShort);
      const bool is_barrier = collective == Collective::barrier;
      ASSERT_EQ(results.size(), is_barrier ? 1u : 2u);
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].collective, collective);
        EXPECT_EQ(results[i].ranks, world.size());
        EXPECT_EQ(results[i].bytes, is_barrier ? 0 : sizes[i]);
        EXPECT_GT(results[i].median_us, 0);
        EXPECT_EQ(results[i].limit_us > 0, !is_barrier);
      }
    }
  });
}

TEST(Measure, gives_all_ranks_the_time_of_the_slowest_one) {
  for_each_world({1, 2, 4}, [](const Communicator& world) {
    const bool is_slow = world.rank() == world.size() - 1;
    const auto waits = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(is_slow ? 2 : 0)); };
    const auto times = time_in_turns(world, std::vector<Contender>{{{waits}}, {{[] {}}}}, kShort);
    ASSERT_EQ(times.size(), 2u);
    ASSERT_EQ(times[0].all.size(), 3u);
    for (const double seconds : times[0].all) EXPECT_GE(seconds, 0.002);
    double lowest[] = {times[0].all[0]}, highest[] = {times[0].all[0]};
    world.all_reduce(buffer(lowest), Reduction::min);
    world.all_reduce(buffer(highest), Reduction::max);
    EXPECT_EQ(lowest[0], highest[0]);
  });
}

TEST(Measure, times_the_parts_of_a_call_in_their_order_between_begin_and_end) {
  for_each_world({1, 3}, [](const Communicator& world) {
    std::string called;
    const bool is_first = world.rank() == 0;
    const auto waits = [&] { called += "w", std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    const Contender both{.parts = {is_first ? waits : std::function<void()>(), [&] { called += "p"; }},
                         .begin = [&] { called += "("; },
                         .end = [&] { called += ")"; }};
    for (const bool is_alone : {true, false}) {
      called.clear();
      const std::vector<Contender> contenders(is_alone ? 1 : 2, both);
      const auto times = time_in_turns(world, contenders, {.turns = 2, .turn_seconds = 0});
      ASSERT_EQ(times[0].parts.size(), 2u);
      for (size_t turn = 0; turn < 2; ++turn) {
        EXPECT_GE(times[0].parts[0][turn], 0.002);
        EXPECT_EQ(times[0].all[turn], times[0].parts[0][turn] + times[0].parts[1][turn]);
      }
      const std::string call = is_first ? "wp" : "p", turn = "(" + call + (is_alone ? "" : call) + ")";
      EXPECT_EQ(called, turn + turn + (is_alone ? "" : turn + turn));
    }
  });
}

TEST(Measure, bounds_a_collective_by_the_bytes_that_it_must_read_and_write) {
  // 4 ranks that copy 100 bytes each move 800; an all_reduce in place moves as many, a broadcast reads 100 and writes 300.
  EXPECT_EQ(limit_us(Collective::all_reduce, 4, 100, 8.0), 8.0);
  EXPECT_EQ(limit_us(Collective::broadcast, 4, 100, 8.0), 4.0);
  EXPECT_EQ(limit_us(Collective::all_gather, 4, 100, 8.0), 5.0);
  EXPECT_EQ(limit_us(Collective::barrier, 4, 0, 8.0), 0.0);
}

TEST(Measure, takes_the_middle_of_the_times) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median_ratio(std::vector{2.0, 9.0, 4.0}, std::vector{1.0, 3.0, 1.0}), 3);
}

TEST(Measure, refuses_sizes_without_an_element_for_each_rank) {
  for_each_world({2}, [](const Communicator& world) {
    const std::vector<int64_t> sizes{64, 4};
    EXPECT_THROW(measure_collective(world, Collective::broadcast, sizes, kShort), InvalidArgument);
  });
}

TEST(Measure, knows_collectives_by_their_names) {
  EXPECT_THAT(collectives_from("all_reduce,barrier"), ElementsAre(Collective::all_reduce, Collective::barrier));
  EXPECT_EQ(collectives_from("").size(), static_cast<size_t>(kCollectives));
  for (const char* wrong : {"allreduce", "all_reduce,", ",all_reduce"})
    EXPECT_THROW(collectives_from(wrong), InvalidArgument);
  try {
    collectives_from("broadcast,allreduce");
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("barrier, broadcast"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("got 'allreduce'"));
  }
}

}  // namespace
}  // namespace adjoin::measure
