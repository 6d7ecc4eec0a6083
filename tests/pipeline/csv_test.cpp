#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/pytorch_schedules.hpp"
#include "tests/support/schedules.hpp"

namespace adjoin::pipeline {
namespace {

using adjoin::testing::random_schedule;
using adjoin::testing::thrown_by;
using ::testing::HasSubstr;

std::string refusal(const std::string& csv, std::optional<int> ranks = {}, std::optional<int> micro_batches = {}) {
  return thrown_by<InvalidArgument>([&] { read_schedule(csv, ranks, micro_batches); });
}

TEST(ScheduleTable, shows_each_action_as_early_as_it_can_be) {
  EXPECT_EQ(to_csv(make_schedule("1f1b", 2, 3)),
            "0F0,0F1,,0B0,0F2,0B1,,0B2\n"
            ",1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(to_csv(make_schedule("zb-h1", 2, 2)),
            "0F0,0F1,,0I0,0W0,0I1,0W1\n"
            ",1F0,1I0,1F1,1I1,1W0,1W1\n");
}

TEST(ScheduleTable, says_the_whole_schedule) {
  for (const std::string_view name : schedule_names())
    for (int ranks = 1; ranks <= 5; ++ranks)
      for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
        const Schedule schedule = make_schedule(name, ranks, micro_batches, name == "interleaved" ? 3 : 1);
        EXPECT_EQ(read_schedule(to_csv(schedule), ranks, micro_batches), schedule);
      }
  for (uint64_t seed = 0; seed < 200; ++seed)
    EXPECT_EQ(read_schedule(to_csv(random_schedule(seed))), random_schedule(seed)) << seed;
}

TEST(ScheduleTable, is_read_as_pytorch_writes_it) {
  const Schedule interleaved = read_schedule(test::kInterleaved1F1B, 4, 8);
  EXPECT_EQ(interleaved.rank_of, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3}));
  const Schedule zero_bubble = read_schedule(test::kInterleavedZeroBubble, 2, 4);
  EXPECT_EQ(zero_bubble.rank_of, (std::vector<int>{0, 1, 0, 1}));
  const Schedule v = read_schedule(test::kZBVZeroBubble, 2, 4);
  EXPECT_EQ(v.rank_of, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(v.actions[0].size(), 24u);
  EXPECT_EQ(v.actions[1][5], (Action{2, Kind::weight, 0}));
  // Two actions in one cell.
  const Schedule dual = read_schedule(test::kDualPipeV, 2, 4);
  EXPECT_EQ(dual.actions[0][7], (Action{0, Kind::forward, 3}));
  EXPECT_EQ(dual.actions[0][8], (Action{3, Kind::backward, 1}));
}

TEST(ScheduleTable, may_have_spaces_and_any_end_of_line) {
  const Schedule one = read_schedule("0F0,0B0");
  EXPECT_EQ(read_schedule(" 0F0 ,, 0B0 ,\r\n\n"), one);
  EXPECT_EQ(one.stages, 1);
  EXPECT_EQ(one.micro_batches, 1);
}

TEST(ScheduleTable, is_refused_with_rank_and_column_of_a_cell_that_is_no_action) {
  for (const char* cell : {"0", "F", "0F", "F0", "0X0", "0f0", "-1F0", "0F-1", "0F0x", "0 F0", "0F0.5", "0UNSHARD",
                           "0SEND_F1", "0F99999999999", "0F8388608", "None", "\"0F0\"", "(0F0;0B0)", "(0F0"})
    EXPECT_EQ(refusal("0F0,0B0\n,," + std::string(cell) + ",1B0"),
              "rank 1, column 3 (\"" + std::string(cell) +
                  "\") is not an action, expected one such as 0F3: stage, F, B, I or W, micro-batch");
  EXPECT_THAT(refusal("(0F0;0X0)OVERLAP_F_B"),
              HasSubstr("rank 0, column 1 (\"(0F0;0X0)OVERLAP_F_B\") is not an action"));
  EXPECT_EQ(to_csv(read_schedule("\xEF\xBB\xBF"
                                 "0F0,0B0\n")),
            "0F0,0B0\n");
  EXPECT_THAT(refusal(std::string("0F0\0", 4)), HasSubstr("(\"0F0\\x00\") is not an action"));
  EXPECT_THAT(refusal(std::string(1000, 'x')), HasSubstr("(\"" + std::string(40, 'x') + "…\") is not an action"));
}

TEST(ScheduleTable, is_refused_where_it_is_empty_or_too_large) {
  EXPECT_THAT(refusal(""), HasSubstr("is empty"));
  EXPECT_THAT(refusal(" \n\r\n"), HasSubstr("is empty"));
  EXPECT_EQ(refusal(",,\n0F0,0B0"), "rank 0 has no action");
  EXPECT_THAT(refusal("0F8000000,4000F0"), HasSubstr("no stage 1"));
  EXPECT_THAT(refusal("0F8000000,1F0"), HasSubstr("more than the 16,777,216 actions"));
  const Schedule wide = make_schedule("gpipe", 10'000, 1);  // few actions, but each rank waits for all before it
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { to_csv(wide); }), HasSubstr("more than 67,108,864 cells"));
}

TEST(ScheduleTable, is_refused_where_other_ranks_or_micro_batches_are_asked_for) {
  const std::string csv = to_csv(make_schedule("gpipe", 2, 3));
  EXPECT_EQ(refusal(csv, 3), "the schedule has 2 lines, one for each rank, expected 3");
  EXPECT_EQ(refusal(csv, 2, 4), "the schedule has 3 micro-batches, expected 4");
  EXPECT_EQ(refusal(csv, 2, 2), "rank 0, column 3 (\"0F2\"): expected micro-batches from 0 to 1");
}

}  // namespace
}  // namespace adjoin::pipeline
