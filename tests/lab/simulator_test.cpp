#include "adjoin/lab/simulator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/support/failures.hpp"

namespace adjoin::lab {
namespace {

using algorithm::Network;
using algorithm::Program;
using algorithm::Region;
using algorithm::Slice;
using algorithm::Step;
using algorithm::Transfer;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Network kNetwork{.alpha = 100, .beta = 1};

Transfer send(int to, int64_t count) {
  return {Transfer::Kind::send, to, Slice{Region::output, 0, count}};
}
Transfer receive(int from, int64_t count) {
  return {Transfer::Kind::receive, from, Slice{Region::output, 0, count}};
}

/// A program of steps of transfers.
Program program(const std::vector<std::vector<Transfer>>& steps) {
  Program program;
  for (const auto& transfers : steps) program.steps.push_back({.transfers = transfers, .moves = {}});
  return program;
}

struct Timed {
  Simulation simulation;
  std::map<std::pair<int, int>, std::pair<double, double>> times;  // of the message between two ranks

  double end(int rank) const { return simulation.ends[static_cast<size_t>(rank)].seconds(kNetwork); }
};

/// Elements are of one byte, so a message of n takes 100 + n seconds.
Timed run(const std::vector<Program>& programs) {
  Timed run;
  run.simulation = simulate(
      static_cast<int>(programs.size()), [&](int rank) { return programs[static_cast<size_t>(rank)]; }, 1, kNetwork,
      [&](const SimulatedMessage& message) {
        run.times[{message.from, message.to}] = {message.begin.seconds(kNetwork), message.end.seconds(kNetwork)};
      });
  return run;
}

TEST(Simulator, has_a_message_take_alpha_and_beta_times_its_bytes) {
  const Timed one = run({program({{send(1, 10)}}), program({{receive(0, 10)}})});
  EXPECT_EQ(one.times.at({0, 1}), std::pair(0.0, 110.0));
  EXPECT_EQ(one.end(0), 110);
  EXPECT_EQ(one.end(1), 110);
  EXPECT_EQ(one.simulation.seconds, 110);
  EXPECT_EQ(one.simulation.messages, 1);
  EXPECT_EQ(one.simulation.end, (Moment{1, 10}));
}

TEST(Simulator, sends_and_receives_at_once_but_one_message_each) {
  const Timed both = run({program({{send(1, 10), receive(1, 10)}}), program({{send(0, 10), receive(0, 10)}})});
  EXPECT_EQ(both.simulation.seconds, 110);
  // A root that sends two, and one that receives two, needs the time of both.
  const Timed out =
      run({program({{send(1, 10), send(2, 20)}}), program({{receive(0, 10)}}), program({{receive(0, 20)}})});
  EXPECT_EQ(out.times.at({0, 1}), std::pair(0.0, 110.0));
  EXPECT_EQ(out.times.at({0, 2}), std::pair(110.0, 230.0));
  EXPECT_EQ(out.end(1), 110);
  const Timed in =
      run({program({{receive(2, 10), receive(1, 20)}}), program({{send(0, 20)}}), program({{send(0, 10)}})});
  EXPECT_EQ(in.times.at({1, 0}), std::pair(0.0, 120.0));
  EXPECT_EQ(in.times.at({2, 0}), std::pair(120.0, 230.0));
}

TEST(Simulator, begins_a_message_when_both_its_ends_are_posted) {
  // Rank 0 sends to 1 and then to 2, which has been waiting since its own message to 3.
  const Timed late = run({program({{send(1, 0)}, {send(2, 0)}}), program({{receive(0, 0)}}),
                          program({{send(3, 300)}, {receive(0, 0)}}), program({{receive(2, 300)}})});
  EXPECT_EQ(late.times.at({0, 1}), std::pair(0.0, 100.0));
  EXPECT_EQ(late.times.at({0, 2}), std::pair(400.0, 500.0));
  EXPECT_EQ(late.end(1), 100);
  EXPECT_EQ(late.end(0), 500);
}

TEST(Simulator, posts_the_next_step_when_all_of_a_step_is_complete) {
  const Timed waited = run({program({{send(1, 10), send(2, 50)}, {receive(1, 5)}}),
                            program({{receive(0, 10)}, {}, {send(0, 5)}}), program({{receive(0, 50)}})});
  EXPECT_EQ(waited.times.at({1, 0}), std::pair(260.0, 365.0));
}

TEST(Simulator, gives_a_port_to_who_was_ready_first_then_by_place_then_by_rank) {
  // Ranks 2 and 1 are ready for rank 0 at once; rank 3 is from time 100 on, when port 0 is still busy.
  const Timed line = run({program({{receive(3, 1), receive(2, 1), receive(1, 1)}}), program({{send(0, 1)}}),
                          program({{send(0, 1)}}), program({{send(4, 0)}, {send(0, 1)}}), program({{receive(3, 0)}})});
  EXPECT_EQ(line.times.at({1, 0}), std::pair(0.0, 101.0));
  EXPECT_EQ(line.times.at({2, 0}), std::pair(101.0, 202.0));
  EXPECT_EQ(line.times.at({3, 0}), std::pair(202.0, 303.0));
  // All to all at once: places decide before ranks, so each rank's first message goes first.
  std::vector<Program> all;
  for (int r = 0; r < 4; ++r) {
    Step step;
    for (int shift = 1; shift < 4; ++shift) step.transfers.push_back(send((r + shift) % 4, 10));
    for (int shift = 1; shift < 4; ++shift) step.transfers.push_back(receive((r + shift) % 4, 10));
    all.push_back(program({step.transfers}));
  }
  EXPECT_EQ(run(all).simulation.seconds, 330);
}

TEST(Simulator, leaves_no_port_idle_that_has_a_message_ready) {
  // 0 -> 1 has begun when 2 -> 1 must wait; 2's second message need not.
  const Timed busy = run({program({{send(1, 100)}}), program({{receive(0, 100), receive(2, 0)}}),
                          program({{send(1, 0), send(3, 0)}}), program({{receive(2, 0)}})});
  EXPECT_EQ(busy.times.at({2, 3}), std::pair(0.0, 100.0));
  EXPECT_EQ(busy.times.at({2, 1}), std::pair(200.0, 300.0));
}

TEST(Simulator, keeps_messages_of_one_pair_in_order) {
  std::vector<int64_t> bytes;
  simulate(
      2,
      [](int rank) {
        return rank == 0 ? program({{send(1, 1), send(1, 2)}, {send(1, 3)}})
                         : program({{receive(0, 1)}, {receive(0, 2), receive(0, 3)}});
      },
      1, kNetwork, [&](const SimulatedMessage& message) { bytes.push_back(message.bytes); });
  EXPECT_EQ(bytes, (std::vector<int64_t>{1, 2, 3}));
}

TEST(Simulator, knows_messages_to_oneself_and_programs_without_messages) {
  EXPECT_EQ(run({program({{send(0, 5), receive(0, 5)}})}).simulation.seconds, 105);
  EXPECT_EQ(run({program({{}, {}}), program({})}).simulation.seconds, 0);
}

TEST(Simulator, counts_a_free_network_as_no_time) {
  const auto ring = [](int rank) {
    return program(
        {{send((rank + 1) % 3, 1), receive((rank + 2) % 3, 1)}, {send((rank + 1) % 3, 1), receive((rank + 2) % 3, 1)}});
  };
  const Simulation simulation = simulate(3, ring, 4, Network{});
  EXPECT_EQ(simulation.seconds, 0);
  EXPECT_EQ(simulation.messages, 6);
}

TEST(Simulator, says_who_waits_for_whom_in_programs_that_never_end) {
  const std::string message = testing::thrown_by<Error>([] {
    run({program({{send(1, 8)}}), program({{send(2, 4)}, {receive(0, 8)}}), program({{receive(0, 1)}, {receive(1, 4)}}),
         program({})});
  });
  EXPECT_EQ(message,
            "deadlock: these programs never end\n"
            "  rank 0: step 1 of 1: send 8 bytes to rank 1, waits for rank 1\n"
            "  rank 1: step 1 of 2: send 4 bytes to rank 2, waits for rank 2\n"
            "  rank 2: step 1 of 2: receive 1 bytes from rank 0, waits for rank 0\n"
            "  rank 3: has returned");
}

TEST(Simulator, names_a_message_whose_ends_differ_and_a_peer_that_is_none) {
  EXPECT_EQ(testing::thrown_by<Error>([] {
              run({program({{}, {send(1, 8)}}), program({{receive(0, 4)}})});
            }),
            "the message of rank 0 in its step 2 of 2 to rank 1 in its step 1 of 1 is sent as 8 bytes, but received as "
            "4");
  EXPECT_THROW(run({program({{send(1, 8)}})}), InvalidArgument);
  EXPECT_THROW(run({program({{send(-1, 8)}})}), InvalidArgument);
  EXPECT_THROW(run({}), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::lab
