#include "adjoin/lab/clocks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "tests/support/hosts_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::lab {
namespace {

TEST(Clocks, of_one_host_are_one) {
  testing::for_each_world({1, 3}, [](const Communicator& world) {
    if (world.backend()->spans_hosts()) return;
    const int64_t before = steady_nanoseconds();
    const ClockReading reading = read_clock(world);
    EXPECT_GE(reading.at, before);
    EXPECT_EQ(reading.offset, 0);
    EXPECT_EQ(reading.error, 0);
  });
}

TEST(Clocks, of_other_hosts_are_compared_within_the_error_that_is_told) {
  testing::for_each_world({1, 2, 4}, [](const Communicator& world) {
    const int64_t ahead = world.rank() * int64_t{1'000'000'000};
    const ClockReading reading =
        read_clock(testing::between_hosts(world), 5, [ahead] { return steady_nanoseconds() + ahead; });
    EXPECT_LE(std::abs(reading.offset + ahead), reading.error);
    EXPECT_GE(reading.error, 0);
    EXPECT_LT(reading.error, 500'000'000);
  });
}

TEST(Clocks, are_on_a_line_between_readings_and_after_them) {
  const std::array<ClockReading, 3> readings{
      {{.at = 1000, .offset = 10}, {.at = 2000, .offset = 30}, {.at = 3000, .offset = 30}}};
  const std::array<std::pair<int64_t, int64_t>, 6> expected{
      {{500, 510}, {1000, 1010}, {1500, 1520}, {2000, 2030}, {2500, 2530}, {4000, 4030}}};
  for (const auto& [own, of_first] : expected) EXPECT_EQ(on_clock_of_rank_0(own, readings), of_first) << own;
  EXPECT_EQ(on_clock_of_rank_0(4000, std::span(readings).first(2)), 4000 + 30 + 40);
  EXPECT_EQ(on_clock_of_rank_0(4000, std::span(readings).first(1)), 4010);
  EXPECT_EQ(on_clock_of_rank_0(4000, {}), 4000);
}

}  // namespace
}  // namespace adjoin::lab
