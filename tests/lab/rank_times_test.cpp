#include "adjoin/lab/rank_times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "adjoin/comm/async_communicator.hpp"
#include "tests/support/hosts_backend.hpp"
#include "tests/support/slow_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::lab {
namespace {

using std::chrono::milliseconds;
using testing::for_each_world;

constexpr int64_t kSecond = 1'000'000'000;

double sum_of(const RankTimes& t) {
  return t.computing + t.waiting + t.communicating + t.data;
}

TimedCall collective(uint64_t group, int64_t begin, int64_t end, bool is_beside = false) {
  return {{.kind = CallRecord::Kind::collective,
           .name = "all_reduce",
           .group = group,
           .number = 1,
           .meeting = 1,
           .is_beside = is_beside,
           .begin = begin * kSecond,
           .end = end * kSecond}};
}

TimedCall wait(int64_t begin, int64_t end) {
  return {{.kind = CallRecord::Kind::wait, .name = "wait", .begin = begin * kSecond, .end = end * kSecond}};
}

/// Of the first of ranks that did this, between 100 and 200 seconds.
RankTimes times_of_first(const std::vector<std::vector<TimedCall>>& ranks, std::vector<TimeSpan> data = {}) {
  std::vector<int> members(ranks.size());
  std::iota(members.begin(), members.end(), 0);
  Meetings meetings;
  std::vector<std::vector<MeetingCall>> calls;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    calls.push_back(MeetingCalls(static_cast<int>(rank))
                        .of({.calls = ranks[rank], .open = {}, .slices = {}, .groups = {{1, members}, {2, members}}}));
    meetings.add(calls.back());
  }
  for (TimeSpan& span : data) span = {span.begin * kSecond, span.end * kSecond};
  return times_of(calls[0], meetings, data, {100 * kSecond, 200 * kSecond});
}

TEST(RankTimes, divide_a_step_into_four) {
  const RankTimes t = times_of_first({{collective(1, 110, 140)}, {collective(1, 125, 141)}}, {{150, 157}});
  EXPECT_DOUBLE_EQ(t.waiting, 15);
  EXPECT_DOUBLE_EQ(t.communicating, 15);
  EXPECT_DOUBLE_EQ(t.data, 7);
  EXPECT_DOUBLE_EQ(t.computing, 63);
  EXPECT_DOUBLE_EQ(t.hidden, 0);
}

TEST(RankTimes, leave_out_what_lies_outside_the_step_and_count_a_call_in_data_once) {
  const RankTimes t = times_of_first(
      {{collective(1, 80, 120), collective(2, 190, 300)}, {collective(1, 110, 121), collective(2, 195, 300)}},
      {{90, 130}, {125, 135}});
  EXPECT_DOUBLE_EQ(t.waiting, 10 + 5);
  EXPECT_DOUBLE_EQ(t.communicating, 10 + 5);
  EXPECT_DOUBLE_EQ(t.data, 15);
  EXPECT_DOUBLE_EQ(t.computing, 55);
}

TEST(RankTimes, tell_apart_what_an_asynchronous_operation_hid) {
  // It goes on from 110 to 160, and from 140 on all are there; another of the second group, which is not waited for.
  const RankTimes t = times_of_first({{wait(130, 161), collective(1, 110, 160, true), collective(2, 155, 158, true)},
                                      {collective(1, 140, 160, true), collective(2, 157, 158, true)}});
  EXPECT_DOUBLE_EQ(t.waiting, 10);
  EXPECT_DOUBLE_EQ(t.communicating, 21);
  EXPECT_DOUBLE_EQ(t.hidden, 20);
  EXPECT_DOUBLE_EQ(t.computing, 69);
}

/// What each rank of a world did in so many steps, on rank 0; elsewhere empty. Each sum was that of the step.
template <class Work>
std::vector<RankTimes> times_in(const Communicator& world, int steps, const Work& work) {
  const auto timeline = std::make_shared<Timeline>();
  const Communicator seen = world.observed_by(timeline);
  TimesOfRanks ranks(world);
  std::vector<RankTimes> sums;
  for (int step = 0; step < steps; ++step) {
    TimeSpan time{.begin = steady_nanoseconds()};
    work(seen, step);
    time.end = steady_nanoseconds();
    const std::vector<RankTimes> times = ranks.of_step(timeline->take(), time);
    EXPECT_EQ(times.size(), world.rank() == 0 ? static_cast<size_t>(world.size()) : 0u);
    sums.resize(times.size());
    for (size_t rank = 0; rank < times.size(); ++rank) {
      EXPECT_NEAR(sum_of(times[rank]), 1e-9 * static_cast<double>(time.size()), 1e-7);
      for (const double share : {times[rank].computing, times[rank].waiting, times[rank].communicating})
        EXPECT_GE(share, -1e-9);
      sums[rank] += times[rank];
    }
  }
  return sums;
}

TEST(RankTimes, of_a_world_show_for_whom_all_wait) {
  for_each_world({3}, [](const Communicator& world) {
    const auto times = times_in(world, 3, [](const Communicator& group, int) {
      group.barrier();  // the step is rank 0's, which may begin it later than rank 1
      if (group.rank() == 1) std::this_thread::sleep_for(milliseconds(60));
      group.barrier();
      std::vector<float> x(10000, 1);
      group.all_reduce(buffer(x));
    });
    for (size_t rank = 0; rank < times.size(); ++rank) {
      if (rank == 1) {
        EXPECT_GT(times[rank].computing, 3 * 0.06);
      } else {
        EXPECT_GT(times[rank].waiting, 0.06);  // of 0.18: on a busy machine others come late too
        EXPECT_LT(times[1].waiting, times[rank].waiting);
      }
    }
  });
}

TEST(RankTimes, of_a_world_whose_transfers_are_slow_are_communicating) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const auto times = times_in(world, 2, [](const Communicator& group, int) {
      const Communicator slow = testing::slowed_by(group, milliseconds(20));
      std::vector<float> x(100, 1);
      slow.all_reduce(buffer(x));
      slow.barrier();
    });
    for (const RankTimes& rank : times) EXPECT_GE(rank.communicating, 2 * 2 * 0.02);
  });
}

TEST(RankTimes, of_a_pipeline_know_the_peers_of_its_messages) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const auto times = times_in(world, 3, [](const Communicator& group, int step) {
      std::vector<float> x(1000, 1), y(1000);
      std::vector<std::unique_ptr<Pending>> sending;
      if (group.rank() == 0) std::this_thread::sleep_for(milliseconds(40));
      if (group.rank() > 0) group.recv(buffer(y), group.rank() - 1, step % 2);
      if (group.rank() + 1 < group.size()) sending.push_back(group.isend(const_buffer(x), group.rank() + 1, step % 2));
      for (const auto& one : sending) one->wait();
      group.barrier();
    });
    if (world.rank() == 0) {
      EXPECT_GT(times[1].waiting, 0.04);  // of 0.12
    }
  });
}

TEST(RankTimes, of_a_world_tell_what_its_streams_hid) {
  for_each_world({2}, [](const Communicator& world) {
    const auto times = times_in(world, 2, [](const Communicator& group, int) {
      std::vector<float> x(100, 1);
      const Communicator slow = testing::slowed_by(group, milliseconds(60));
      const AsyncCommunicator stream(slow);
      const Handle handle = stream.all_reduce(buffer(x));
      std::this_thread::sleep_for(milliseconds(30));
      handle.wait();
    });
    for (const RankTimes& rank : times) {
      EXPECT_GT(rank.hidden, 0.02);  // of 0.06
      EXPECT_GT(rank.hidden + rank.communicating + rank.waiting, 2 * 0.06);
      EXPECT_GT(rank.computing, 0.04);  // of 0.06
    }
  });
}

TEST(RankTimes, are_told_of_ranks_on_several_hosts) {
  for_each_world({3}, [](const Communicator& world) {
    // More calls than fit into the first message of a rank, once.
    times_in(testing::between_hosts(world), 4, [](const Communicator& group, int step) {
      std::vector<float> x(10, 1);
      for (int i = 0; i < (step == 1 ? 100 : 2); ++i) group.all_reduce(buffer(x));
    });
  });
}

}  // namespace
}  // namespace adjoin::lab
