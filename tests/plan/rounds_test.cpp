#include "adjoin/plan/rounds.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adjoin::plan {
namespace {

constexpr double kTolerance = 0.05;

/// A machine whose clock only measuring moves on. A part takes its `seconds`, or `slower` times as long while something else
/// runs, and then loses its processor for the rest of the time if `notices`.
struct Machine {
  double now = 0, busy_from = 0, busy_until = 0, slower = 2;
  bool notices = true;
  std::vector<std::string> order = {};

  MeasuredPart part(const std::string& name, double seconds, const std::string& kind = "any") {
    return {name, kind, [this, name, seconds] {
              const bool is_busy = now < busy_until && now + seconds > busy_from;
              const double took = is_busy ? slower * seconds : seconds;
              now += took;
              order.push_back(name);
              return Reading{{took}, is_busy && notices ? 1 - seconds / took : 0};
            }};
  }
  void measure(std::vector<MeasuredPart>& parts, double seconds) {
    measure_in_rounds(parts, seconds, kTolerance, [this] { return now; });
  }
};

TEST(Rounds, measure_each_part_once_a_round) {
  Machine machine;
  std::vector<MeasuredPart> parts{machine.part("a", 1), machine.part("b", 2)};
  machine.measure(parts, 30);
  EXPECT_EQ(machine.order, (std::vector<std::string>{"a", "b", "a", "b", "a", "b"}));
  for (const MeasuredPart& part : parts) EXPECT_TRUE(part.is_sure(kTolerance)) << part.name;
}

TEST(Rounds, take_what_was_least_disturbed_whether_or_not_the_disturbance_is_noticed) {
  for (const bool notices : {false, true})
    for (const double begin : {0.0, 1.0, 3.0, 6.0}) {
      Machine machine{.busy_from = begin, .busy_until = begin + 5, .notices = notices};
      std::vector<MeasuredPart> parts;
      for (const std::string name : {"a", "b", "c", "d"}) parts.push_back(machine.part(name, 0.75));
      machine.measure(parts, 30);
      for (const MeasuredPart& part : parts) {
        EXPECT_DOUBLE_EQ(part.best(kTolerance)->sum(), 0.75) << part.name << ", disturbed from " << begin;
        EXPECT_TRUE(part.is_sure(kTolerance)) << part.name << ", disturbed from " << begin;
      }
    }
}

TEST(Rounds, go_on_while_something_else_is_seen_to_run) {
  Machine machine{.busy_until = 5};
  std::vector<MeasuredPart> parts{machine.part("a", 0.3), machine.part("b", 0.3)};  // three rounds take 1.8 s, or 3.6
  machine.measure(parts, 30);
  for (const MeasuredPart& part : parts) {
    EXPECT_DOUBLE_EQ(part.best(kTolerance)->sum(), 0.3);
    EXPECT_TRUE(part.is_sure(kTolerance));
  }
  EXPECT_LT(machine.now, 8);
}

TEST(Rounds, end_when_time_is_up_and_tell_what_is_not_sure) {
  Machine machine{.busy_until = 1000};
  std::vector<MeasuredPart> parts{machine.part("a", 1), machine.part("b", 1)};
  machine.measure(parts, 5);
  EXPECT_EQ(machine.order, (std::vector<std::string>{"a", "b", "a"}));
  for (const MeasuredPart& part : parts) EXPECT_FALSE(part.is_sure(kTolerance));
}

TEST(Rounds, are_not_sure_of_readings_that_differ) {
  int readings = 0;
  std::vector<MeasuredPart> parts{{"a", "any", [&] { return Reading{{1.0 + 0.2 * readings++}, 0}; }}};
  measure_in_rounds(parts, 30, kTolerance, [] { return 0.0; });
  EXPECT_EQ(readings, 10) << "it is measured for longer than the three rounds of others";
  EXPECT_FALSE(parts[0].is_sure(kTolerance));
  EXPECT_DOUBLE_EQ(parts[0].best(kTolerance)->sum(), 1);
}

TEST(Rounds, prefer_a_reading_that_had_its_processors) {
  const MeasuredPart part{"a", "any", nullptr, {{{0.9}, 0.5}, {{1.0}, 0.01}, {{1.2}, 0}}};
  EXPECT_DOUBLE_EQ(part.best(kTolerance)->sum(), 1);
  EXPECT_EQ((MeasuredPart{"a", "any", nullptr}).best(kTolerance), nullptr);
}

TEST(Rounds, take_the_middle_of_readings_that_are_close) {
  const MeasuredPart part{"a", "any", nullptr, {{{1.01}, 0}, {{0.9}, 0.5}, {{1.02}, 0}, {{1.0}, 0}, {{1.7}, 0}}};
  EXPECT_DOUBLE_EQ(part.best(kTolerance)->sum(), 1.01);
}

TEST(Rounds, measure_one_part_of_each_kind_when_time_is_up) {
  Machine machine;
  std::vector<MeasuredPart> parts{machine.part("a", 4, "block"), machine.part("b", 4, "block"),
                                  machine.part("c", 4, "head"), machine.part("d", 4, "head")};
  machine.measure(parts, 3);
  EXPECT_EQ(machine.order, (std::vector<std::string>{"a", "c"}));
  EXPECT_TRUE(parts[0].is_sure(kTolerance)) << "of a single reading";
  EXPECT_TRUE(parts[1].readings.empty());
}

}  // namespace
}  // namespace adjoin::plan
