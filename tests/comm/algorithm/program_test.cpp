// Every algorithm as data: results, and the messages of known cases.

#include "adjoin/comm/algorithm/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin::algorithm {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

void expect_right_results(Collective collective, std::string_view algorithm, int size, const std::vector<int>& roots) {
  for (const Request& q : some_requests(collective, size, algorithm, roots)) {
    SCOPED_TRACE(describe(q, algorithm));
    Machine machine(q, algorithm);
    machine.run();
    for (int r = 0; r < size; ++r) ASSERT_EQ(machine.output(r), part_of(q, r).expected) << "on rank " << r;
  }
}

TEST(Programs, give_right_results_on_1_to_17_ranks_from_every_root) {
  for_each_algorithm([](Collective collective, std::string_view algorithm) {
    for (int size = 1; size <= 17; size += kIsSanitized ? 4 : 1)
      expect_right_results(collective, algorithm, size, all_ranks(size));
  });
}

TEST(Programs, give_right_results_on_more_ranks) {
  for_each_algorithm([](Collective collective, std::string_view algorithm) {
    for (const int size : kIsSanitized ? std::vector<int>{33} : std::vector<int>{31, 32, 33, 48, 64})
      expect_right_results(collective, algorithm, size, {0, 1, size - 1});
  });
}

/// The peers that a rank sends to, or receives from, step by step.
std::vector<int> peers_of(const Request& q, std::string_view algorithm, int rank, bool sends) {
  std::vector<int> peers;
  for (const Step& step : program_of(q, algorithm, rank).steps)
    for (const Transfer& t : step.transfers)
      if ((t.kind == Transfer::Kind::send) == sends) peers.push_back(t.peer);
  return peers;
}

size_t sent(const Request& q, std::string_view algorithm, int rank) {
  return peers_of(q, algorithm, rank, /*sends=*/true).size();
}
size_t received(const Request& q, std::string_view algorithm, int rank) {
  return peers_of(q, algorithm, rank, /*sends=*/false).size();
}

TEST(Programs, of_naive_broadcast_send_from_the_root_to_all_others) {
  const Request q{.collective = Collective::broadcast, .size = 8, .root = 1, .count = 5};
  EXPECT_EQ(sent(q, "naive", 1), 7u);
  EXPECT_EQ(received(q, "naive", 1), 0u);
  for (const int r : {0, 2, 3, 4, 5, 6, 7}) {
    EXPECT_EQ(sent(q, "naive", r), 0u);
    EXPECT_EQ(received(q, "naive", r), 1u);
  }
}

TEST(Programs, of_tree_broadcast_send_from_the_root_once_a_step) {
  const Request q{.collective = Collective::broadcast, .size = 4, .root = 2, .count = 5};
  EXPECT_EQ(sent(q, "tree", 2), 2u);
  EXPECT_EQ(received(q, "tree", 2), 0u);
  for (const int r : {0, 1, 3}) EXPECT_EQ(received(q, "tree", r), 1u);
}

TEST(Programs, of_ring_broadcast_send_one_chunk_from_all_but_the_last) {
  const Request q{.collective = Collective::broadcast, .size = 16, .root = 1, .count = 5};
  for (int r = 0; r < 16; ++r) {
    EXPECT_EQ(sent(q, "ring", r), r == 0 ? 0u : 1u);  // rank 0 is the last after 1
    EXPECT_EQ(received(q, "ring", r), r == 1 ? 0u : 1u);
  }
}

TEST(Programs, of_ring_broadcast_pass_one_chunk_on_while_the_next_comes) {
  const Request q{.collective = Collective::broadcast, .size = 3, .root = 0, .count = 5, .chunk = 2};
  const Program program = program_of(q, "ring", 1);
  ASSERT_EQ(program.steps.size(), 4u);  // P - 2 + K
  for (const size_t step : {1, 2}) EXPECT_EQ(program.steps[step].transfers.size(), 2u);
  EXPECT_EQ(program.steps[2].transfers[1].slice, (Slice{Region::output, 4, 1}));
}

TEST(Programs, of_naive_reduce_receive_on_the_root_from_all_others_in_the_order_of_ranks) {
  const Request q{.collective = Collective::reduce, .size = 8, .root = 7, .count = 5};
  EXPECT_EQ(peers_of(q, "naive", 7, /*sends=*/false), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  for (int r = 0; r < 7; ++r) EXPECT_EQ(peers_of(q, "naive", r, /*sends=*/true), std::vector<int>{7});
}

TEST(Programs, of_tree_reduce_receive_on_the_root_once_a_step) {
  const Request q{.collective = Collective::reduce, .size = 8, .root = 0, .count = 5};
  EXPECT_EQ(received(q, "tree", 0), 3u);
  EXPECT_EQ(sent(q, "tree", 0), 0u);
  for (int r = 1; r < 8; ++r) EXPECT_EQ(sent(q, "tree", r), 1u);
}

TEST(Programs, of_butterfly_all_reduce_meet_a_partner_for_each_bit) {
  const Request q{.collective = Collective::all_reduce, .size = 8, .count = 5};
  for (int r = 0; r < 8; ++r) {
    const std::vector<int> partners{r ^ 1, r ^ 2, r ^ 4};
    EXPECT_EQ(peers_of(q, "butterfly", r, /*sends=*/true), partners);
    EXPECT_EQ(peers_of(q, "butterfly", r, /*sends=*/false), partners);
  }
}

TEST(Programs, of_naive_all_reduce_go_through_rank_0) {
  const Request q{.collective = Collective::all_reduce, .size = 8, .count = 5};
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ(sent(q, "naive", r), r == 0 ? 7u : 1u);
    EXPECT_EQ(received(q, "naive", r), r == 0 ? 7u : 1u);
  }
}

TEST(Programs, of_a_dissemination_barrier_make_every_rank_hear_of_every_other) {
  for (int size = 1; size <= 64; ++size) {
    const Request q{.collective = Collective::barrier, .size = size};
    std::vector<std::vector<bool>> heard(static_cast<size_t>(size), std::vector<bool>(static_cast<size_t>(size)));
    for (size_t r = 0; r < heard.size(); ++r) heard[r][r] = true;
    const size_t steps = program_of(q, "dissemination", 0).steps.size();
    for (size_t s = 0; s < steps; ++s) {
      const auto before = heard;
      for (size_t r = 0; r < heard.size(); ++r) {
        const auto from = static_cast<size_t>(peers_of(q, "dissemination", static_cast<int>(r), /*sends=*/false)[s]);
        for (size_t k = 0; k < heard.size(); ++k)
          if (before[from][k]) heard[r][k] = true;
      }
    }
    for (const auto& one : heard) ASSERT_EQ(std::count(one.begin(), one.end(), true), size);
  }
}

std::string message_of(const Request& q, std::string_view algorithm, int rank) {
  try {
    program_of(q, algorithm, rank);
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "";
}

TEST(Programs, of_unknown_algorithms_are_refused_with_a_list_of_the_known) {
  EXPECT_EQ(
      message_of({.collective = Collective::all_reduce, .size = 4}, "tre", 0),
      "the program of all_reduce on 4 ranks: expected one of the algorithms naive, butterfly, ring, rabenseifner, got "
      "'tre'");
}

TEST(Programs, of_requests_that_are_none_are_refused) {
  EXPECT_THAT(message_of({.collective = Collective::broadcast, .size = 4, .root = 4}, "tree", 0),
              HasSubstr("expected a root from 0 to 3, got 4"));
  EXPECT_THAT(message_of({.collective = Collective::broadcast, .size = 4}, "tree", -1),
              HasSubstr("expected a rank from 0 to 3, got -1"));
  EXPECT_THAT(message_of({.collective = Collective::broadcast, .size = 0}, "tree", 0),
              HasSubstr("expected at least one rank, got 0"));
  EXPECT_THAT(message_of({.collective = Collective::broadcast, .size = 4, .count = -2}, "tree", 0),
              HasSubstr("not negative, got -2"));
  EXPECT_THAT(message_of({.collective = Collective::gather, .size = 4, .counts = {1, 2}}, "tree", 0),
              HasSubstr("expected 4 counts, got 2"));
  EXPECT_THAT(message_of({.collective = Collective::all_to_all, .size = 2, .counts = {1, 2}}, "bruck", 0),
              HasSubstr("expected 4 counts, got 2"));
  EXPECT_THAT(message_of({.collective = Collective::gather, .size = 2, .counts = {1, -2}}, "tree", 0),
              HasSubstr("no negative count, got -2"));
}

}  // namespace
}  // namespace adjoin::algorithm
