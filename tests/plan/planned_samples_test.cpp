#include "adjoin/plan/planned_samples.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/random_task.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

Configuration of_batches(int64_t batch, int64_t dp) {
  Configuration c = configuration_of("tiny");
  c.batch = batch;
  c.dp = dp;
  c.sequence = 64;
  c.vocabulary_size = 64;
  c.validation = 0;
  return c;
}

int64_t tokens_of(const std::vector<int64_t>& lengths, std::span<const int64_t> samples) {
  int64_t tokens = 0;
  for (const int64_t sample : samples) tokens += lengths[static_cast<size_t>(sample)];
  return tokens;
}

TEST(TypicalBatch, has_as_many_tokens_as_batches_have_in_the_mean) {
  const Configuration c = of_batches(8, 1);
  const auto task = testing::random_task(c, 512, [](int64_t i) { return 4 + i * i * 60 / (512 * 512); });
  const std::vector<int64_t> lengths = task->lengths(data::Part::train), batch = typical_batch(c, *task);
  ASSERT_EQ(batch.size(), 8U);
  const double mean = 8.0 * static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) / 512;
  EXPECT_NEAR(static_cast<double>(tokens_of(lengths, batch)), mean, 0.05 * mean);
}

TEST(TypicalBatch, gives_each_rank_along_dp_as_much) {
  const Configuration c = of_batches(16, 2);
  const auto task = testing::random_task(c, 256, [](int64_t i) { return 4 + i % 61; });
  const std::vector<int64_t> lengths = task->lengths(data::Part::train), batch = typical_batch(c, *task);
  ASSERT_EQ(batch.size(), 16U);
  const std::span<const int64_t> all(batch);
  EXPECT_EQ(tokens_of(lengths, all.first(8)), tokens_of(lengths, all.last(8)));
}

TEST(BusiestRank, has_the_longest_samples_together) {
  const Configuration c = of_batches(4, 2);
  const std::vector<int64_t> batch{0, 1, 2, 3};
  const BusiestRank busiest = busiest_rank(c, {1, 9, 4, 7}, batch);
  EXPECT_EQ(busiest.rank, 1);
  EXPECT_EQ(busiest.tokens, 11);
  EXPECT_EQ(busiest_rank(c, {}, batch).tokens, 2);  // samples
}

}  // namespace
}  // namespace adjoin::plan
