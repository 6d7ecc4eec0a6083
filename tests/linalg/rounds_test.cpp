#include "adjoin/linalg/rounds.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/support/hosts_backend.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::linalg {
namespace {

using namespace adjoin::testing;

std::string order_of(const Communicator& world, size_t rounds, bool overlap, bool with_first = false) {
  std::string order;
  in_rounds(
      overlap ? between_hosts(world) : world, rounds,
      with_first ? std::function<void()>([&] { order += "first "; }) : nullptr,
      [&](size_t i) -> Transfer {
        order += "b" + std::to_string(i) + " ";
        return [](const Communicator& group) { group.barrier(); };
      },
      [&](size_t i) { order += "e" + std::to_string(i) + " "; });
  return order;
}

TEST(Rounds, begin_one_ahead_where_they_overlap) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const bool overlaps = rounds_overlap(world);  // as a job on two hosts does
    EXPECT_EQ(order_of(world, 3, /*overlap=*/false), overlaps ? "b0 b1 e0 b2 e1 e2 " : "b0 e0 b1 e1 b2 e2 ");
    EXPECT_EQ(order_of(world, 3, /*overlap=*/true), "b0 b1 e0 b2 e1 e2 ");
    EXPECT_EQ(order_of(world, 1, /*overlap=*/true), "b0 e0 ");
    EXPECT_EQ(order_of(world, 0, /*overlap=*/true), "");
    EXPECT_EQ(order_of(world, 2, /*overlap=*/true, /*with_first=*/true), "b0 first b1 e0 e1 ");
    EXPECT_EQ(order_of(world, 1, /*overlap=*/true, /*with_first=*/true), "b0 first e0 ");
    EXPECT_EQ(order_of(world, 1, /*overlap=*/false, /*with_first=*/true), overlaps ? "b0 first e0 " : "first b0 e0 ");
    EXPECT_EQ(order_of(world, 0, /*overlap=*/true, /*with_first=*/true), "first ");
  });
}

TEST(Rounds, travel_while_the_one_before_is_worked_on) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    std::atomic<bool> second_travels = false;
    bool was_seen = false;
    in_rounds(
        between_hosts(world), 2, /*first=*/{},
        [&](size_t i) -> Transfer {
          return [&, i](const Communicator& group) {
            group.barrier();
            if (i == 1) second_travels = true;
          };
        },
        [&](size_t i) {
          const auto longest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (i == 0 && !second_travels && std::chrono::steady_clock::now() < longest) std::this_thread::yield();
          if (i == 0) was_seen = second_travels;
        });
    EXPECT_TRUE(was_seen);
  });
}

TEST(Rounds, make_a_group_and_a_thread_once) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const auto made = std::make_shared<Made>();
    const Communicator group = between_hosts(world, made);
    const auto in_two = [](const Communicator& of) {
      in_rounds(
          of, 2, /*first=*/{}, [](size_t) -> Transfer { return [](const Communicator& own) { own.barrier(); }; },
          [](size_t) {});
    };
    for (int time = 0; time < 3; ++time) {
      in_two(group);
      in_two(Communicator(group).observed_by(nullptr));
      EXPECT_EQ(*made, std::pair(1, 1));
    }
  });
}

}  // namespace
}  // namespace adjoin::linalg
