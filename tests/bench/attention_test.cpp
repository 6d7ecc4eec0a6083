#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/layouts.hpp"

namespace adjoin::test {
namespace {

using ::testing::HasSubstr;

const std::string kUntimedAttention = "attention --length 64 --heads 2 --dim 8 --times ";
const std::string kSmallAttention = kUntimedAttention + "2 ";

void expect_attention_measured(const Outcome& outcome, size_t ranks, bool has_plain) {
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  for (const char* key : {"seconds", "forward_seconds", "backward_seconds", "local_seconds", "ratio"})
    EXPECT_GT(json.at(key).get<double>(), 0) << key;
  EXPECT_EQ(json.contains("plain_seconds"), has_plain);
  if (has_plain) {
    EXPECT_GT(json.at("plain_ratio").get<double>(), 0);
  }
  ASSERT_EQ(json.at("peak_memory_bytes").size(), ranks);
  // At least a rank's rows of q, k and v, of the result and its gradient, and of the gradients of q, k and v.
  const int64_t rows = 64 / static_cast<int64_t>(ranks);
  for (const auto& bytes : json.at("peak_memory_bytes")) EXPECT_GE(bytes.get<int64_t>(), rows * 8 * 2 * 8 * 4);
}

TEST(BenchAttention, prints_json_of_threads_and_of_an_mpi_job) {
  expect_attention_measured(run_layouts(kSmallAttention + "--json --ranks 4"), 4, false);
  expect_attention_measured(run_layouts(kSmallAttention + "--json --method ulysses --causal"), 2, true);
  expect_attention_measured(run_layouts(kSmallAttention + "--json --method local"), 1, false);
  expect_attention_measured(run_layouts(kSmallAttention + "--json --method gathered --dropout 0.1", 2), 2, true);
}

TEST(BenchAttention, prints_a_table_for_people) {
  const Outcome table = run_layouts(kSmallAttention + "--method ring --causal");
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("ring on 2 ranks"));
  EXPECT_THAT(table.out, HasSubstr("neither causal nor dropped"));
  EXPECT_THAT(table.out, HasSubstr("rank 1: peak tensor memory"));
}

TEST(BenchAttention, gives_the_memory_alone_where_nothing_is_timed) {
  const Outcome json = run_layouts(kUntimedAttention + "0 --causal --json");
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out).at("peak_memory_bytes").size(), 2);
  EXPECT_THAT(json.out, ::testing::Not(HasSubstr("seconds")));
  EXPECT_THAT(run_layouts(kUntimedAttention + "0 --method local").out, ::testing::StartsWith("local on 1 rank\n"));
  const Outcome table = run_layouts(kUntimedAttention + "0");
  EXPECT_THAT(table.out, ::testing::StartsWith("ring on 2 ranks\nrank 0: peak tensor memory"));
}

}  // namespace
}  // namespace adjoin::test
