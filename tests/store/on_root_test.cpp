#include "adjoin/store/on_root.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace std::chrono_literals;
using adjoin::testing::failure_of;
using adjoin::testing::for_each_world;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(OnRoot, works_on_rank_0_before_the_others_go_on) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    std::array<int32_t, 1> worked{};
    on_root(world, "working", [&] {
      std::this_thread::sleep_for(30ms);
      worked[0] = 1;
    });
    EXPECT_EQ(worked[0], world.rank() == 0);
    world.broadcast(buffer(worked), 0);
    EXPECT_EQ(worked[0], 1);
  });
}

TEST(OnRoot, takes_longer_than_the_deadline_without_meeting_it) {
  EXPECT_EQ(
      failure_of<Error>(
          3, [](const Communicator& world) { on_root(world, "working", [] { std::this_thread::sleep_for(2s); }); },
          {.deadline = 800ms}),
      "nothing was thrown");
}

TEST(OnRoot, leaves_the_deadline_to_ranks_that_do_not_come) {
  EXPECT_THAT(failure_of<CommunicationError>(2,
                                             [](const Communicator& world) {
                                               if (world.rank() == 0) std::this_thread::sleep_for(4s);
                                               on_root(world, "working", [] {});
                                             },
                                             {.deadline = 300ms}),
              HasSubstr("no progress within the deadline"));
}

TEST(OnRoot, ends_the_others_by_what_the_work_throws) {
  EXPECT_EQ(failure_of<IoError>(3,
                                [](const Communicator& world) {
                                  on_root(world, "writing", [] { throw IoError("disk: is full"); });
                                  world.barrier();
                                }),
            "rank 0: disk: is full");
}

TEST(OnRoot, notes_work_that_takes_long) {
  ::testing::internal::CaptureStderr();
  on_root(
      Communicator(), "writing a/b", [] { std::this_thread::sleep_for(1500ms); }, /*note_after=*/1s);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), EndsWith("adjoin: still writing a/b after 1 s\n"));
}

}  // namespace
}  // namespace adjoin::train
