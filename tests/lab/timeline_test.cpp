#include "adjoin/lab/timeline.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/launch.hpp"

namespace adjoin::lab {
namespace {

TEST(Timeline, names_group_and_number_of_calls_alike_on_all_ranks) {
  launch_threads(3, [](const Communicator& world) {
    const auto timeline = std::make_shared<Timeline>();
    const Communicator seen = world.observed_by(timeline);
    std::vector<double> x(4, 1);
    seen.all_reduce(buffer(x));
    const std::vector<int> pair = {0, 2}, rest = {1};
    const Communicator group = seen.subset(world.rank() == 1 ? rest : pair);
    group.all_reduce(buffer(x));
    group.barrier();
    const Timeline::Interval taken = timeline->take();
    ASSERT_EQ(taken.calls.size(), 3u);
    EXPECT_EQ(taken.calls[0].group, 0u);
    EXPECT_EQ(taken.calls[0].meeting, 1u);
    EXPECT_EQ(taken.calls[0].bytes(), 32);
    EXPECT_EQ(taken.calls[2].meeting, 2u);
    EXPECT_LE(taken.calls[1].end, taken.calls[2].begin);
    EXPECT_EQ(taken.groups.at(taken.calls[1].group), world.rank() == 1 ? rest : pair);
    std::vector<int64_t> ids(3);
    const std::vector<int64_t> mine = {static_cast<int64_t>(taken.calls[1].group)};
    world.all_gather(const_buffer(mine), buffer(ids), std::vector<int64_t>(3, 1));
    EXPECT_EQ(ids[0], ids[2]);
    EXPECT_NE(ids[0], ids[1]);
    EXPECT_TRUE(timeline->take().calls.empty());
  });
}

TEST(Timeline, tells_what_goes_on_beside_and_the_waits_for_it) {
  launch_threads(2, [](const Communicator& world) {
    const auto timeline = std::make_shared<Timeline>();
    const Communicator seen = world.observed_by(timeline);
    std::vector<float> x(1 << 20, 1);
    const AsyncCommunicator stream = seen.stream();
    timeline->take();
    stream.all_reduce(buffer(x)).wait();
    int beside = 0;
    for (const TimedCall& call : timeline->take().calls) {
      EXPECT_EQ(call.is_beside, call.kind == CallRecord::Kind::collective);
      beside += call.is_beside;
    }
    EXPECT_EQ(beside, 1);
  });
}

TEST(Timeline, has_the_messages_of_a_call_and_the_wait_for_a_send) {
  launch_threads(2, [](const Communicator& world) {
    const auto timeline = std::make_shared<Timeline>();
    const Communicator seen = world.observed_by(timeline);
    std::vector<float> x(8, 1);
    if (world.rank() == 0) {
      const auto sending = seen.isend(const_buffer(x), 1, 5);
      world.barrier();
      sending->wait();
    } else {
      world.barrier();
      seen.recv(buffer(x), 0, 5);
    }
    const Timeline::Interval taken = timeline->take();
    ASSERT_GE(taken.calls.size(), 1u);  // a wait too, unless it was received before
    for (const TimedCall& call : taken.calls) {
      ASSERT_EQ(call.messages.size(), 1u);
      EXPECT_EQ(call.messages[0].peer, 1 - world.rank());
      EXPECT_EQ(call.messages[0].tag, 5);
      EXPECT_EQ(call.messages[0].is_send, world.rank() == 0);
      EXPECT_EQ(call.messages[0].bytes, 32);
    }
  });
}

TEST(TimeSlice, is_of_the_timeline_of_its_thread) {
  const TimeSlice nowhere("data");
  Timeline timeline;
  {
    const TimeSlice outer("step", 3);
    const TimeSlice inner("data");
  }
  const std::vector<TimedSlice> slices = timeline.take().slices;
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0].name, "data");
  EXPECT_EQ(slices[1].name, "step");
  EXPECT_EQ(slices[1].number, 3);
  EXPECT_LE(slices[1].begin, slices[0].begin);
  EXPECT_LE(slices[0].end, slices[1].end);
}

}  // namespace
}  // namespace adjoin::lab
