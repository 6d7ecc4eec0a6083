#include "adjoin/lab/trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "tests/support/every_algorithm.hpp"

namespace adjoin::lab {
namespace {

using adjoin::testing::for_every_algorithm;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Trial try_out(Collective collective, std::string_view algorithm, int ranks, int root, int64_t bytes,
              int64_t chunk = 0) {
  return lab::try_out(exercise_of(collective, ranks, root, bytes, chunk), algorithm);
}

TEST(Trial, of_every_algorithm_is_right_and_sends_what_the_programs_say) {
  for_every_algorithm([](Collective collective, std::string_view algorithm) {
    for (const int ranks : {1, 2, 5, 8})
      for (const int64_t bytes : {0, 10, 64}) {
        const Exercise exercise = exercise_of(collective, ranks, ranks / 2, bytes, 8);
        const Trial trial = lab::try_out(exercise, algorithm);
        EXPECT_TRUE(trial.is_right) << ranks << " ranks, " << bytes << " bytes";
        int64_t sends = 0;
        for (int r = 0; r < ranks; ++r) {
          const auto program = program_of(request_of(exercise), algorithm, r);
          int64_t own = 0;
          for (const auto& step : program.steps)
            for (const auto& transfer : step.transfers) own += transfer.kind == algorithm::Transfer::Kind::send;
          EXPECT_EQ(trial.recording.sent_by(r), own);
          EXPECT_EQ(trial.steps, static_cast<int64_t>(program.steps.size()));
          sends += own;
        }
        EXPECT_EQ(static_cast<int64_t>(trial.recording.messages.size()), sends);
        EXPECT_GE(trial.seconds, 0);
      }
  });
}

TEST(Trial, of_an_average_is_right) {
  for (const Collective collective : {Collective::reduce, Collective::all_reduce, Collective::reduce_scatter})
    for (const std::string_view algorithm : algorithm::names_of(collective)) {
      Exercise exercise = exercise_of(collective, 4, 1, 64);
      exercise.type = ElementType::float32;
      exercise.reduction = Reduction::average;
      EXPECT_TRUE(lab::try_out(exercise, algorithm).is_right) << name(collective) << " " << algorithm;
    }
}

TEST(Trial, shows_what_the_ranks_hold) {
  EXPECT_THAT(try_out(Collective::broadcast, "tree", 3, 2, 8).held,
              ElementsAre(ElementsAre(200, 201), ElementsAre(200, 201), ElementsAre(200, 201)));
  EXPECT_THAT(try_out(Collective::reduce, "naive", 3, 1, 8).held,
              ElementsAre(IsEmpty(), ElementsAre(300, 303), IsEmpty()));
  EXPECT_THAT(try_out(Collective::all_to_all, "pairwise", 2, 0, 12).held,
              ElementsAre(ElementsAre(0, 1, 100, 101), ElementsAre(2, 102)));
  EXPECT_THAT(try_out(Collective::scatter, "naive", 2, 1, 3).held,  // bytes: 100, 101 | 102
              ElementsAre(ElementsAre(100, 101), ElementsAre(102)));
}

TEST(Trial, of_known_cases_counts_what_is_known_of_them) {
  // Naive broadcast on 8 from root 1: the root sends 7, the others receive 1 each.
  const Recording naive = try_out(Collective::broadcast, "naive", 8, 1, 64).recording;
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ(naive.sent_by(r), r == 1 ? 7 : 0);
    EXPECT_EQ(naive.received_by(r), r == 1 ? 0 : 1);
  }
  // Tree broadcast on 4 from root 2: each other rank receives 1 and the root sends 2.
  const Recording tree = try_out(Collective::broadcast, "tree", 4, 2, 64).recording;
  for (int r = 0; r < 4; ++r) EXPECT_EQ(tree.received_by(r), r == 2 ? 0 : 1);
  EXPECT_EQ(tree.sent_by(2), 2);
  // Ring broadcast of one chunk on 16 from root 1: each rank but the last sends 1.
  const Recording ring = try_out(Collective::broadcast, "ring", 16, 1, 64).recording;
  for (int r = 0; r < 16; ++r) EXPECT_EQ(ring.sent_by(r), r == 0 ? 0 : 1);
  // Reduce on 8: naive to root 7 the root receives 7; by a tree the root receives 3, every other sends 1.
  EXPECT_EQ(try_out(Collective::reduce, "naive", 8, 7, 64).recording.received_by(7), 7);
  const Recording up = try_out(Collective::reduce, "tree", 8, 0, 64).recording;
  EXPECT_EQ(up.received_by(0), 3);
  for (int r = 1; r < 8; ++r) EXPECT_EQ(up.sent_by(r), 1);
  // Butterfly all_reduce on 8: partners rank^1, rank^2, rank^4, and nobody else.
  const Recording butterfly = try_out(Collective::all_reduce, "butterfly", 8, 0, 64).recording;
  EXPECT_EQ(butterfly.messages.size(), 24u);
  for (int r = 0; r < 8; ++r)
    for (const int bit : {1, 2, 4}) EXPECT_EQ(butterfly.sent(r, r ^ bit), 1);
  // Naive all_reduce on 8: rank 0 receives 7 and sends 7, the others 1 and 1.
  const Recording both = try_out(Collective::all_reduce, "naive", 8, 0, 64).recording;
  for (int r = 0; r < 8; ++r) {
    EXPECT_EQ(both.sent_by(r), r == 0 ? 7 : 1);
    EXPECT_EQ(both.received_by(r), r == 0 ? 7 : 1);
  }
}

TEST(Trial, names_the_step_of_each_message_as_the_program_has_it) {
  // Pieces k = 0, 1, 2 of a ring from root 0 on 3 ranks travel in step 1 + k and 2 + k.
  const Trial trial = try_out(Collective::broadcast, "ring", 3, 0, 24, 8);
  EXPECT_EQ(trial.steps, 4);
  std::vector<std::vector<int64_t>> steps(2);
  for (const RecordedMessage& message : trial.recording.messages)
    steps[static_cast<size_t>(message.from)].push_back(message.step);
  EXPECT_THAT(steps, ElementsAre(ElementsAre(1, 2, 3), ElementsAre(2, 3, 4)));
}

TEST(Trial, refuses_what_is_no_exercise) {
  EXPECT_THROW(try_out(Collective::broadcast, "butterfly", 4, 0, 8), InvalidArgument);
  EXPECT_THROW(try_out(Collective::broadcast, "tree", 4, 4, 8), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::lab
