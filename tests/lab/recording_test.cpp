#include "adjoin/lab/recording.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::lab {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Links = std::vector<std::pair<int, int>>;

Links links_of(const Recording& recording) {
  Links links;
  for (const RecordedMessage& message : recording.messages) links.emplace_back(message.from, message.to);
  return links;
}

void send_to(const Communicator& world, int to, int tag = 0, int64_t count = 1) {
  const std::vector<int32_t> values(static_cast<size_t>(count), world.rank());
  world.send(const_buffer(values), to, tag);
}

void receive_from(const Communicator& world, int from, int tag = 0, int64_t count = 1) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  world.recv(buffer(values), from, tag);
  EXPECT_EQ(values, std::vector<int32_t>(values.size(), from));
}

TEST(Recording, holds_each_message_with_its_ranks_tag_bytes_places_and_times) {
  const Recording recording = record(3, [](const Communicator& world) {
    if (world.rank() == 0) send_to(world, 1, 7, 5);
    if (world.rank() == 1) receive_from(world, 0, 7, 5), send_to(world, 2, 8);
    if (world.rank() == 2) receive_from(world, 1, 8);
  });
  ASSERT_EQ(links_of(recording), (Links{{0, 1}, {1, 2}}));
  const RecordedMessage &first = recording.messages[0], &second = recording.messages[1];
  EXPECT_EQ(first.tag, 7);
  EXPECT_EQ(first.bytes, 20);
  EXPECT_EQ(first.type, ElementType::int32);
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(second.step, 2);
  EXPECT_EQ(first.place_received, 1);
  EXPECT_EQ(second.place_sent, 2);
  EXPECT_EQ(second.place_received, 1);
  EXPECT_LE(0, first.begin);
  EXPECT_LE(first.begin, first.end);
  EXPECT_LE(first.end, second.begin);
}

TEST(Recording, counts_messages_and_bytes_of_each_rank) {
  const Recording recording = record(4, [](const Communicator& world) {
    for (int r = 1; r < 4; ++r) {
      if (world.rank() == 0) send_to(world, r, 0, r);
      if (world.rank() == r) receive_from(world, 0, 0, r);
    }
  });
  EXPECT_EQ(recording.sent_by(0), 3);
  EXPECT_EQ(recording.bytes(0, Recording::kAny), 24);
  EXPECT_EQ(recording.received_by(0), 0);
  EXPECT_EQ(recording.received_by(3), 1);
  EXPECT_EQ(recording.bytes(Recording::kAny, 3), 12);
  EXPECT_EQ(recording.sent(0, 2), 1);
  EXPECT_EQ(recording.sent(2, 0), 0);
  EXPECT_EQ(recording.bytes(), 24);
  EXPECT_EQ(recording.steps(), 3);
  EXPECT_EQ(describe(recording), "step 1: 0 -> 1 (4 bytes)\nstep 2: 0 -> 2 (8 bytes)\nstep 3: 0 -> 3 (12 bytes)\n");
}

TEST(Recording, is_empty_where_nothing_is_sent) {
  const Recording recording = record(1, [](const Communicator&) {});
  EXPECT_TRUE(recording.messages.empty());
  EXPECT_EQ(recording.steps(), 0);
}

TEST(Recording, puts_messages_that_are_exchanged_together_into_one_step) {
  const Recording recording = record(4, [](const Communicator& world) {
    const int next = (world.rank() + 1) % 4, previous = (world.rank() + 3) % 4;
    for (int round = 0; round < 2; ++round) {
      int32_t mine[] = {world.rank()}, theirs[] = {-1};
      world.sendrecv(const_buffer(mine), next, buffer(theirs), previous);
    }
  });
  EXPECT_EQ(links_of(recording), (Links{{0, 1}, {1, 2}, {2, 3}, {3, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 0}}));
  EXPECT_EQ(recording.steps(), 2);
}

TEST(Recording, leaves_out_the_backends_own_collectives_but_orders_around_them) {
  const Recording recording = record(4, [](const Communicator& world) {
    if (world.rank() == 2) send_to(world, 3);
    if (world.rank() == 3) receive_from(world, 2);
    world.barrier();
    if (world.rank() == 0) send_to(world, 1);
    if (world.rank() == 1) receive_from(world, 0);
  });
  EXPECT_EQ(links_of(recording), (Links{{2, 3}, {0, 1}}));
}

TEST(Recording, names_ranks_of_the_world_in_groups_that_are_used_at_once) {
  const Recording recording = record(4, [](const Communicator& world) {
    const Communicator half = *world.split(world.rank() % 2, -world.rank());  // 2, 0 and 3, 1
    const int low = world.rank() / 2 * 2;
    const Communicator pair = world.subset(std::vector<int>{low + 1, low});  // 1, 0 and 3, 2
    for (const Communicator& group : {half, pair}) {
      int32_t value[] = {0};
      if (group.rank() == 0) group.send(const_buffer(value), 1);
      if (group.rank() == 1) group.recv(buffer(value), 0);
    }
  });
  EXPECT_EQ(links_of(recording), (Links{{2, 0}, {3, 1}, {1, 0}, {3, 2}}));
}

TEST(Recording, of_several_threads_of_a_rank_keeps_what_ended_before_what_began_later) {
  const Recording recording = record(2, [](const Communicator& world) {
    const std::vector<int> both = {0, 1};
    const Communicator other = world.subset(both).for_thread();
    const auto talk = [](const Communicator& group) {
      if (group.rank() == 0) send_to(group, 1);
      if (group.rank() == 1) receive_from(group, 0), send_to(group, 0);
      if (group.rank() == 0) receive_from(group, 1);
    };
    world.backend()->rest(true);
    std::jthread([&] { talk(other); }).join();
    world.backend()->rest(false);
    talk(world);
  });
  EXPECT_EQ(links_of(recording), (Links{{0, 1}, {1, 0}, {0, 1}, {1, 0}}));
  EXPECT_EQ(recording.steps(), 4);
}

TEST(Recording, holds_what_a_chosen_algorithm_sends) {
  const Recording recording = record(8, [](const Communicator& world) {
    std::vector<float> values(5, 1.0f);
    world.with_algorithm(Collective::all_reduce, "butterfly").all_reduce(buffer(values));
    EXPECT_EQ(values, std::vector<float>(5, 8.0f));
  });
  EXPECT_EQ(recording.steps(), 3);
  for (int rank = 0; rank < 8; ++rank)
    for (int bit = 0; bit < 3; ++bit) EXPECT_EQ(recording.sent(rank, rank ^ (1 << bit)), 1);
  for (const RecordedMessage& message : recording.messages) EXPECT_EQ(message.tag, kCollectiveTag);
}

TEST(Recording, holds_what_is_sent_beside_the_callers_thread) {
  const Recording recording = record(2, [](const Communicator& world) {
    const AsyncCommunicator async(world);
    std::vector<float> values(3);
    const Handle handle = world.rank() == 0 ? async.send(const_buffer(values), 1) : async.recv(buffer(values), 0);
    handle.wait();
    if (world.rank() == 1) send_to(world, 0);
    if (world.rank() == 0) receive_from(world, 1);
  });
  EXPECT_EQ(links_of(recording), (Links{{0, 1}, {1, 0}}));
}

/// Whether every message that a rank had ended comes before those that it began later.
void expect_causal(const Recording& recording) {
  const auto& all = recording.messages;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      const auto place = [](const RecordedMessage& message, int rank) {
        return message.from == rank ? message.place_sent : message.place_received;
      };
      for (const int rank : {all[i].from, all[i].to}) {
        if (all[j].from != rank && all[j].to != rank) continue;
        EXPECT_LE(place(all[i], rank), place(all[j], rank));
      }
    }
}

TEST(Recording, agrees_with_causality_and_repeats_on_random_programs) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const int ranks = 2 + static_cast<int>(random() % 5);
    Links plan;  // one after the other, so that no two ranks wait for each other
    for (int i = 0; i < 60; ++i) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(ranks));
      plan.emplace_back(from, (from + 1 + static_cast<int>(random() % static_cast<unsigned>(ranks - 1))) % ranks);
    }
    const auto run = [&] {
      return record(ranks, [&](const Communicator& world) {
        for (const auto& [from, to] : plan) {
          if (world.rank() == from) send_to(world, to);
          if (world.rank() == to) receive_from(world, from);
        }
      });
    };
    const Recording first = run();
    ASSERT_EQ(first.messages.size(), plan.size());
    expect_causal(first);
    EXPECT_EQ(describe(first), describe(run()));
  }
}

TEST(Recording, ends_a_deadlock_with_every_pending_call) {
  const std::string message = testing::thrown_by<CommunicationError>([] {
    record(2,
           [](const Communicator& world) { send_to(world, 1 - world.rank()), receive_from(world, 1 - world.rank()); });
  });
  EXPECT_THAT(message, AllOf(HasSubstr("deadlock"), HasSubstr("rank 0: send #1"), HasSubstr("waits for rank 1"),
                             HasSubstr("rank 1: send #1"), HasSubstr("recording_test.cpp")));
}

TEST(Recording, of_a_failed_run_has_what_was_received_before) {
  const Recorder recorder(2);
  const std::string message = testing::thrown_by<CommunicationError>([&] {
    launch_threads(2, [&](const Communicator& plain) {
      const Communicator world = recorder.watch(plain);
      if (world.rank() == 0) send_to(world, 1), send_to(world, 1, 3);
      if (world.rank() == 1) receive_from(world, 0), receive_from(world, 0, 4);
    });
  });
  EXPECT_THAT(message, HasSubstr("deadlock"));
  EXPECT_EQ(links_of(recorder.recording()), (Links{{0, 1}}));
}

TEST(Recording, wants_at_least_one_rank_and_the_world_that_it_was_made_for) {
  EXPECT_THROW(record(0, [](const Communicator&) {}), InvalidArgument);
  EXPECT_THROW(Recorder(2).watch(Communicator()), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::lab
