#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/layouts.hpp"

namespace adjoin::test {
namespace {

using ::testing::HasSubstr;

const std::string kSmallProduct = "matmul --length 64 --dim 8 --times 2 ";

void expect_measured(const Outcome& outcome, size_t ranks) {
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  for (const char* key : {"seconds", "forward_seconds", "backward_seconds", "local_seconds", "ratio", "forward_ratio"})
    EXPECT_GT(json.at(key).get<double>(), 0) << key;
  ASSERT_EQ(json.at("peak_memory_bytes").size(), ranks);
  // At least a rank's rows of both factors, of the product and its gradient, and of the factors' gradients.
  const int64_t rows = 64 / static_cast<int64_t>(ranks);
  for (const auto& bytes : json.at("peak_memory_bytes")) EXPECT_GE(bytes.get<int64_t>(), rows * (4 * 8 + 2 * 64) * 4);
}

TEST(BenchMatmul, prints_json_of_threads_and_of_an_mpi_job) {
  expect_measured(run_layouts(kSmallProduct + "--json --product nt --ranks 4"), 4);
  expect_measured(run_layouts(kSmallProduct + "--json --product nn --chunk 3", 2), 2);
}

TEST(BenchMatmul, prints_a_table_for_people) {
  const Outcome table = run_layouts(kSmallProduct + "--product tn --chunk auto");
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("tn on 2 ranks"));
  EXPECT_THAT(table.out, HasSubstr("median of the ratios"));
  EXPECT_THAT(table.out, HasSubstr("rank 1: peak tensor memory"));
}

}  // namespace
}  // namespace adjoin::test
