#include "adjoin/comm/contract/diagnosis.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace adjoin::diagnosis {
namespace {

using State = Worker::State;
using Flags = std::vector<bool>;

Flags stuck_of(const std::vector<Worker>& workers, int ranks) {
  return stuck(workers, ranks);
}

TEST(Diagnosis, finds_a_circle_and_who_waits_for_it) {
  // 0 and 1 wait for each other, 2 for 1; 3 computes, and 4 waits for it.
  const std::vector<Worker> workers = {{0, State::waits, {1}},
                                       {1, State::waits, {0}},
                                       {2, State::waits, {1}},
                                       {3, State::runs, {}},
                                       {4, State::waits, {3}}};
  EXPECT_EQ(stuck_of(workers, 5), (Flags{true, true, true, false, false}));
}

TEST(Diagnosis, frees_a_chain_that_ends_at_one_who_runs) {
  const std::vector<Worker> workers = {{0, State::waits, {1}}, {1, State::waits, {2}}, {2, State::runs, {}}};
  EXPECT_EQ(stuck_of(workers, 3), (Flags{false, false, false}));
}

TEST(Diagnosis, wants_each_of_the_ranks_that_are_waited_for) {
  // 0 waits for 1, which runs, and for 2, which waits for 0.
  const std::vector<Worker> workers = {{0, State::waits, {1, 2}}, {1, State::runs, {}}, {2, State::waits, {0}}};
  EXPECT_EQ(stuck_of(workers, 3), (Flags{true, false, true}));
}

TEST(Diagnosis, counts_a_rank_without_workers_as_one_that_never_acts) {
  EXPECT_EQ(stuck_of({{0, State::waits, {1}}}, 2), (Flags{true}));
}

TEST(Diagnosis, lets_another_thread_of_a_rank_free_who_waits_for_it) {
  // Rank 1 has a thread that waits for 0, and one that runs and may yet do what 0 waits for.
  const std::vector<Worker> workers = {{0, State::waits, {1}}, {1, State::waits, {0}}, {1, State::runs, {}}};
  EXPECT_EQ(stuck_of(workers, 2), (Flags{false, false, false}));
  // One that rests does nothing before the other has.
  const std::vector<Worker> resting = {{0, State::waits, {1}}, {1, State::waits, {0}}, {1, State::rests, {}}};
  EXPECT_EQ(stuck_of(resting, 2), (Flags{true, true, false}));
}

TEST(Diagnosis, reports_every_rank_and_joins_equal_lines) {
  const std::vector<Worker> workers = {{.rank = 0, .state = State::waits, .needs = {4, 3}, .call = "barrier #2"},
                                       {.rank = 1, .state = State::waits, .needs = {3, 4}, .call = "barrier #2"},
                                       {.rank = 2, .state = State::waits, .needs = {3, 4}, .call = "barrier #2"},
                                       {.rank = 3}};
  EXPECT_EQ(report("deadlock", workers, 5),
            "deadlock\n"
            "  ranks 0-2: barrier #2, waits for ranks 3, 4\n"
            "  rank 3: computes\n"
            "  rank 4: has returned");
}

}  // namespace
}  // namespace adjoin::diagnosis
