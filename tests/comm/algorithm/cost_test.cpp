// The formulas against the data they are about.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/costs.hpp"
#include "tests/support/sanitized.hpp"

namespace adjoin::testing {

void PrintTo(const Cost& cost, std::ostream* out) {
  *out << "sent " << cost.messages_sent << " messages of " << cost.elements_sent << " elements, received "
       << cost.messages_received << " of " << cost.elements_received;
}

}  // namespace adjoin::testing

namespace adjoin::algorithm {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

Cost counted(const Program& program) {
  Cost cost;
  for (const Step& step : program.steps)
    for (const Transfer& t : step.transfers) {
      const bool is_send = t.kind == Transfer::Kind::send;
      ++(is_send ? cost.messages_sent : cost.messages_received);
      (is_send ? cost.elements_sent : cost.elements_received) += t.slice.count;
    }
  return cost;
}

TEST(Costs, by_formula_are_those_of_the_programs_on_1_to_64_ranks) {
  for_each_algorithm([](Collective collective, std::string_view algorithm) {
    for (int size = 1; size <= 64; size += kIsSanitized ? 7 : 1)
      for (const Request& q : some_requests(collective, size, algorithm, {0, size / 3, size - 1})) {
        SCOPED_TRACE(describe(q, algorithm));
        for (int r = 0; r < size; ++r) {
          const Program program = program_of(q, algorithm, r);
          ASSERT_EQ(cost_of(q, algorithm, r), counted(program)) << "on rank " << r;
          ASSERT_EQ(steps_of(q, algorithm), static_cast<int64_t>(program.steps.size())) << "on rank " << r;
        }
      }
  });
}

/// All ranks' programs on a network as seconds_of describes it, message by message.
class Wire {
 public:
  Wire(const Request& q, std::string_view algorithm, int64_t bytes_per_element, const Network& network)
      : bytes_per_element_(bytes_per_element), network_(network) {
    for (int r = 0; r < q.size; ++r) ranks_.push_back({.program = program_of(q, algorithm, r)});
  }

  double seconds() {
    for (Rank& rank : ranks_) enter(rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r)
        while (try_send(static_cast<int>(r))) moved = true;
    }
    double last = 0;
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(rank.step, rank.program.steps.size()) << "the ports wait for each other";
      last = std::max(last, rank.now);
    }
    return last;
  }

 private:
  struct Rank {
    Program program;
    size_t step = 0;
    double now = 0;  // when it came to the step
    double out_free = 0, in_free = 0;
    std::vector<Transfer> sends = {}, receives = {};  // of the step, those still to come
  };

  /// Comes to the first step from here on in which the rank has something to do.
  void enter(Rank& rank) {
    for (; rank.step < rank.program.steps.size(); ++rank.step) {
      for (const Transfer& t : rank.program.steps[rank.step].transfers)
        (t.kind == Transfer::Kind::send ? rank.sends : rank.receives).push_back(t);
      if (!rank.sends.empty() || !rank.receives.empty()) return;
    }
  }

  bool try_send(int from) {
    Rank& sender = ranks_[static_cast<size_t>(from)];
    if (sender.sends.empty()) return false;
    const Transfer message = sender.sends.front();
    Rank& receiver = ranks_[static_cast<size_t>(message.peer)];
    if (receiver.receives.empty() || receiver.receives.front().peer != from) return false;
    const double start = std::max({sender.now, receiver.now, sender.out_free, receiver.in_free});
    const double end =
        start + network_.alpha + network_.beta * static_cast<double>(message.slice.count * bytes_per_element_);
    sender.out_free = receiver.in_free = end;
    sender.sends.erase(sender.sends.begin());
    receiver.receives.erase(receiver.receives.begin());
    for (Rank* rank : {&sender, &receiver}) leave_if_done(*rank);
    return true;
  }

  void leave_if_done(Rank& rank) {
    if (!rank.sends.empty() || !rank.receives.empty()) return;
    rank.now = std::max({rank.now, rank.out_free, rank.in_free});
    ++rank.step;
    enter(rank);
  }

  int64_t bytes_per_element_;
  Network network_;
  std::vector<Rank> ranks_;
};

bool has_formula(const Request& q, std::string_view algorithm) {
  const bool are_equal = std::adjacent_find(q.counts.begin(), q.counts.end(), std::not_equal_to<>()) == q.counts.end();
  return are_equal || algorithm == "naive" || algorithm == "ring";
}

TEST(Costs, in_seconds_are_those_of_the_programs_on_a_network) {
  // One where messages cost, one where bytes do, and one where both do.
  const Network networks[] = {{1, 0}, {0, 1}, {3, 0.25}};
  for_each_algorithm([&](Collective collective, std::string_view algorithm) {
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 24, 31, 32, 33, 64})
      for (const Request& q : some_requests(collective, size, algorithm, {0, size - 1}))
        for (const Network& network : networks) {
          if (!has_formula(q, algorithm)) continue;
          const double simulated = Wire(q, algorithm, 4, network).seconds();
          ASSERT_NEAR(seconds_of(q, algorithm, 4, network), simulated, 1e-9 * simulated) << describe(q, algorithm);
        }
  });
}

TEST(Costs, in_seconds_want_equal_counts_where_the_formula_does) {
  const Request q{.collective = Collective::all_gather, .size = 3, .counts = {4, 4, 5}};
  EXPECT_EQ(seconds_of(q, "ring", 1, {1, 1}), 2 * (1 + 5.0));
  try {
    seconds_of(q, "bruck", 1, {1, 1});
    FAIL() << "must throw";
  } catch (const InvalidArgument& e) {
    EXPECT_THAT(e.what(), HasSubstr("all_gather on 3 ranks: expected equal counts, got 4 and 5"));
  }
}

TEST(Costs, of_known_cases) {
  // A bandwidth-optimal all-reduce moves 2 (P - 1) / P of the elements each way (Patarasuk, Yuan 2009).
  const Request q{.collective = Collective::all_reduce, .size = 8, .count = 800};
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ(cost_of(q, "ring", r), (Cost{14, 14, 1400, 1400}));
    EXPECT_EQ(cost_of(q, "rabenseifner", r), (Cost{6, 6, 1400, 1400}));
    EXPECT_EQ(cost_of(q, "butterfly", r), (Cost{3, 3, 2400, 2400}));
  }
  // Thakur, Rabenseifner, Gropp 2005, table of costs: lg p alpha + (p - 1) / p n beta for recursive doubling and Bruck.
  const Request gather{.collective = Collective::all_gather, .size = 16, .counts = Values(16, 10)};
  EXPECT_DOUBLE_EQ(seconds_of(gather, "doubling", 1, {1000, 1}), 4 * 1000 + 150);
  EXPECT_DOUBLE_EQ(seconds_of(gather, "bruck", 1, {1000, 1}), 4 * 1000 + 150);
  EXPECT_DOUBLE_EQ(seconds_of(gather, "ring", 1, {1000, 1}), 15 * 1000 + 150);
}

}  // namespace
}  // namespace adjoin::algorithm
