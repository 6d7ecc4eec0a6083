#include "adjoin/lab/meetings.hpp"

#include <gtest/gtest.h>

namespace adjoin::lab {
namespace {

using Kind = CallRecord::Kind;

TimedCall meeting(uint64_t number, int64_t begin, int64_t end) {
  return {{.kind = Kind::collective,
           .name = "all_reduce",
           .number = number,
           .meeting = number,
           .begin = begin,
           .end = end}};
}

TimedCall message(const char* name, uint64_t number, int peer, bool is_send, int64_t begin, int64_t end, int tag = 0) {
  return {{.kind = Kind::messages, .name = name, .number = number, .begin = begin, .end = end},
          {{.peer = peer, .tag = tag, .is_send = is_send}},
          std::string_view(name) == "isend"};
}

/// All ranks of a world, in takes that follow each other.
class World {
 public:
  explicit World(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) calls_.emplace_back(rank);
    for (int rank = 0; rank < ranks; ++rank) members_.push_back(rank);
  }
  /// When all were there that each call of each rank needed, of one take.
  std::vector<std::vector<int64_t>> take(const std::vector<std::vector<TimedCall>>& ended,
                                         const std::vector<std::vector<TimedCall>>& open = {}) {
    std::vector<std::vector<MeetingCall>> made;
    for (size_t rank = 0; rank < ended.size(); ++rank) {
      made.push_back(calls_[rank].of({.calls = ended[rank],
                                      .open = open.empty() ? std::vector<TimedCall>() : open[rank],
                                      .slices = {},
                                      .groups = {{0, members_}}}));
      meetings_.add(made.back());
    }
    std::vector<std::vector<int64_t>> there;
    for (size_t rank = 0; rank < ended.size(); ++rank) {
      there.emplace_back();
      for (size_t i = 0; i < ended[rank].size(); ++i) there.back().push_back(meetings_.last_arrival(made[rank][i]));
    }
    meetings_.forget();
    return there;
  }
  size_t points() const { return meetings_.size(); }

 private:
  std::vector<MeetingCalls> calls_;
  std::vector<int> members_;
  Meetings meetings_;
};

using Times = std::vector<std::vector<int64_t>>;

TEST(Meetings, of_a_collective_begin_with_its_last_rank) {
  World world(3);
  EXPECT_EQ(world.take({{meeting(1, 10, 40), meeting(2, 50, 90)},
                        {meeting(1, 30, 41), meeting(2, 45, 91)},
                        {meeting(1, 20, 42), meeting(2, 60, 92)}}),
            (Times{{30, 60}, {30, 60}, {30, 60}}));
}

TEST(Meetings, of_messages_need_the_peer_in_the_order_of_each_tag) {
  World world(2);
  EXPECT_EQ(world.take({{message("send", 1, 1, true, 10, 30), message("send", 2, 1, true, 35, 60, 7),
                         message("send", 3, 1, true, 61, 70)},
                        {message("recv", 1, 0, false, 20, 31), message("recv", 2, 0, false, 33, 61, 7),
                         message("recv", 3, 0, false, 62, 71)}}),
            (Times{{20, 35, 62}, {20, 35, 62}}));
}

TEST(Meetings, of_an_isend_need_nobody_and_its_wait_the_receiver) {
  World world(2);
  TimedCall wait = message("wait", 1, 1, true, 20, 55);
  wait.kind = Kind::wait;
  EXPECT_EQ(world.take({{message("isend", 1, 1, true, 10, 11), wait}, {message("recv", 1, 0, false, 40, 54)}}),
            (Times{{10, 40}, {40}}));
}

TEST(Meetings, of_a_begun_collective_need_nobody_and_its_wait_all) {
  World world(2);
  TimedCall begun = meeting(1, 10, 11), other = meeting(1, 30, 31), wait = meeting(1, 20, 60),
            other_wait = meeting(1, 40, 50);
  begun.is_begun = other.is_begun = true;
  wait.kind = other_wait.kind = Kind::wait;
  EXPECT_EQ(world.take({{begun, wait}, {other, other_wait}}), (Times{{10, 30}, {30, 40}}));
}

TEST(Meetings, of_an_exchange_need_all_its_peers) {
  World world(3);
  const auto exchange = [](uint64_t number, std::vector<TimedMessage> messages, int64_t begin, int64_t end) {
    return TimedCall{{.kind = Kind::messages, .name = "exchange", .number = number, .begin = begin, .end = end},
                     std::move(messages)};
  };
  // Rank 0 gives to 1, and gets of 2; it gives to itself too.
  EXPECT_EQ(
      world.take({{exchange(1, {{.peer = 1, .is_send = true}, {.peer = 2}, {.peer = 0, .is_send = true}, {.peer = 0}},
                            10, 60)},
                  {exchange(1, {{.peer = 0}, {.peer = 2, .is_send = true}}, 30, 61)},
                  {exchange(1, {{.peer = 1}, {.peer = 0, .is_send = true}}, 50, 62)}}),
      (Times{{50}, {50}, {50}}));
  EXPECT_EQ(world.take({{exchange(2, {}, 70, 80)}, {}, {}}), (Times{{70}, {}, {}}));
}

TEST(Meetings, know_calls_of_earlier_takes_and_forget_them_when_all_have_ended) {
  World world(2);
  EXPECT_EQ(world.take({{message("isend", 1, 1, true, 10, 11)}, {}}), (Times{{10}, {}}));
  EXPECT_EQ(world.take({{}, {message("recv", 1, 0, false, 5, 30)}}), (Times{{}, {10}}));
  EXPECT_EQ(world.points(), 1u);
  TimedCall wait = message("wait", 1, 1, true, 20, 31);
  wait.kind = Kind::wait;
  // A send that was taken two takes before is no longer known: its wait is all communicating.
  EXPECT_EQ(world.take({{wait}, {}}), (Times{{20}, {}}));
  EXPECT_EQ(world.points(), 0u);
}

TEST(Meetings, know_when_calls_began_that_go_on) {
  World world(2);
  TimedCall open = meeting(1, 30, 0);
  open.is_beside = true;
  EXPECT_EQ(world.take({{meeting(1, 10, 40)}, {}}, {{}, {open}}), (Times{{30}, {}}));
  EXPECT_EQ(world.take({{}, {}}, {{}, {open}}), (Times{{}, {}}));
  open.end = 90;
  EXPECT_EQ(world.take({{}, {open}}), (Times{{}, {30}}));
  EXPECT_EQ(world.take({{}, {}}), (Times{{}, {}}));
  EXPECT_EQ(world.points(), 0u);
}

TEST(Meetings, with_a_rank_that_is_not_known_to_come_are_all_waiting) {
  World world(2);
  EXPECT_EQ(world.take({{meeting(1, 10, 40)}, {}}), (Times{{40}, {}}));
  EXPECT_EQ(world.take({{}, {meeting(1, 100, 120)}}), (Times{{}, {100}}));
}

}  // namespace
}  // namespace adjoin::lab
