#include "adjoin/partition/token_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Runs = std::vector<std::vector<Run>>;  // Run in a test is gtest's

TEST(TokenRows, balanced_cuts_each_sample_over_the_workers) {
  const TokenRows rows = TokenRows::balanced({5, 1, 0, 2}, 2);
  EXPECT_EQ(rows.to_string(), "samples of [5, 1, 0, 2] as 0:[0, 3) 1:[0, 1) 3:[0, 1) | 0:[3, 5) 3:[1, 2)");
  EXPECT_EQ(rows.size(), 8);
  EXPECT_THAT(std::vector<int64_t>({rows.size(0), rows.size(1)}), ElementsAre(5, 3));
  EXPECT_EQ(rows.offset(3), 6);
}

TEST(TokenRows, zigzag_gives_each_worker_a_piece_from_both_ends_of_each_sample) {
  EXPECT_EQ(TokenRows::zigzag({8, 5}, 2).to_string(),
            "samples of [8, 5] as 0:[0, 2) 0:[6, 8) 1:[0, 2) 1:[4, 5) | 0:[2, 4) 0:[4, 6) 1:[2, 3) 1:[3, 4)");
}

/// Scores that a worker computes where each token sees itself and those before it.
int64_t causal_scores(const TokenRows& rows, int worker) {
  int64_t scores = 0;
  for (const adjoin::Run& run : rows.runs(worker))
    for (int64_t token = run.tokens.begin; token < run.tokens.end; ++token) scores += token + 1;
  return scores;
}

TEST(TokenRows, zigzag_is_equally_much_causal_work_for_all) {
  const TokenRows rows = TokenRows::zigzag({64, 16, 8}, 4);
  for (int worker = 1; worker < 4; ++worker) EXPECT_EQ(causal_scores(rows, worker), causal_scores(rows, 0));
  const TokenRows ranges = TokenRows::balanced({64, 16, 8}, 4);
  EXPECT_GT(causal_scores(ranges, 3), 5 * causal_scores(ranges, 0));
}

TEST(TokenRows, in_blocks_follow_one_another_block_by_block) {
  EXPECT_EQ(TokenRows::in_blocks({5, 1, 2}, TokenBlocks::of(3, 2, /*causal=*/false)).to_string(),
            "samples of [5, 1, 2] as 0:[0, 2) 1:[0, 1) 2:[0, 1) 0:[2, 4) 2:[1, 2) | 0:[4, 5)");
  EXPECT_EQ(TokenRows::in_blocks({5, 2}, TokenBlocks::of(4, 2, /*causal=*/true)).to_string(),
            "samples of [5, 2] as 0:[0, 2) 1:[0, 1) 0:[4, 5) | 0:[2, 3) 1:[1, 2) 0:[3, 4)");
}

TEST(TokenBlocks, are_held_once_and_the_first_by_the_first_worker) {
  for (int64_t count = 1; count <= 9; ++count)
    for (int workers = 1; workers <= count; ++workers)
      for (const bool causal : {false, true}) {
        const TokenBlocks blocks = TokenBlocks::of(count, workers, causal);
        std::vector<int> times(static_cast<size_t>(count));
        for (const auto& held : blocks.held)
          for (const int64_t block : held) ++times[static_cast<size_t>(block)];
        EXPECT_EQ(times, std::vector(static_cast<size_t>(count), 1)) << count << " on " << workers;
        EXPECT_EQ(blocks.held[0].front(), 0);
      }
}

TEST(TokenRows, know_the_sample_and_token_of_each_row) {
  const TokenRows rows = TokenRows::of_runs({{{1, {0, 2}}, {0, {2, 3}}}, {}, {{0, {0, 2}}}}, {3, 2});
  EXPECT_EQ(rows.places(0), (std::vector<TokenPlace>{{1, 0}, {1, 1}, {0, 2}}));
  EXPECT_TRUE(rows.places(1).empty());
}

TEST(TokenRows, are_a_split_of_the_samples_laid_one_behind_another) {
  const Split split = TokenRows::of_runs({{{1, {0, 2}}, {0, {2, 3}}}, {}, {{0, {0, 2}}}}, {3, 2}).split();
  EXPECT_TRUE(split == Split::of_ranges({{{3, 5}, {2, 3}}, {}, {{0, 2}}}, 5, 0)) << split.to_string();
}

TEST(TokenRows, refuse_runs_that_are_not_every_token_once) {
  const auto refusal = [](const Runs& runs) {
    return test::message_of<InvalidArgument>([&] { TokenRows::of_runs(runs, {3}); });
  };
  EXPECT_NE(refusal({{{0, {0, 2}}}}), "");                 // leaves one out
  EXPECT_NE(refusal({{{0, {0, 3}}}, {{0, {1, 2}}}}), "");  // has one twice
  EXPECT_THAT(refusal({{{0, {0, 4}}}}),
              HasSubstr("expected tokens within samples of lengths [3], got [0, 4) of sample 0"));
  EXPECT_THAT(refusal({{{1, {0, 1}}}}), HasSubstr("got [0, 1) of sample 1"));
  EXPECT_THAT(refusal({}), HasSubstr("expected at least 1 worker"));
  EXPECT_THROW(TokenRows::balanced({3, -1}, 2), InvalidArgument);
  EXPECT_THROW(TokenRows::zigzag({3}, 0), InvalidArgument);
}

}  // namespace
}  // namespace adjoin
