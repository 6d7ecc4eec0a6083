#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using test::Outcome;
using test::run;
using ::testing::HasSubstr;

void expect_results(const Outcome& outcome, int ranks) {
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  const auto& results = json.at("results");
  ASSERT_EQ(results.size(), 3u);  // two sizes, and a barrier, which has none
  for (const auto& result : results) {
    const bool is_barrier = result.at("op") == "barrier";
    EXPECT_EQ(result.at("ranks"), ranks);
    EXPECT_GT(result.at("median_us").get<double>(), 0);
    EXPECT_EQ(result.at("limit_us").get<double>() > 0, !is_barrier);
  }
  EXPECT_EQ(results[0].at("op"), "all_reduce");
  EXPECT_EQ(results[0].at("bytes"), 64);
  EXPECT_EQ(results[1].at("bytes"), 4096);
  EXPECT_EQ(results[2].at("op"), "barrier");
}

TEST(BenchCollectives, prints_json_of_threads_and_of_an_mpi_job) {
  const std::string command = "bench collectives --op all_reduce,barrier --sizes 64,4K --json";
  expect_results(run(command + " --ranks 3"), 3);
  expect_results(run(command, {.ranks = 2}), 2);
}

TEST(BenchCollectives, prints_a_table_for_people) {
  const Outcome table = run("bench collectives --op broadcast --sizes 1M");
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr("GB/s"));
  EXPECT_THAT(table.out, HasSubstr("1 MiB"));
}

TEST(BenchCollectives, says_what_is_wrong_with_its_options) {
  const struct {
    std::string arguments, expected;
  } cases[] = {
      {"--backend mpi --ranks 4", "start it as mpirun -n 4 adjoin bench collectives"},
      {"--backend nccl", "--backend is nccl, expected threads or mpi"},
      {"--op allreduce", "expected operations among barrier, broadcast, "},
      {"--sizes 4Q", "--sizes is 4Q, expected a number of bytes such as 512, 4K, 1M or 2G"},
      {"--sizes 4 --ranks 2", "--sizes is 4, expected a multiple of 4 from 8 to "},
      {"--sizes 30", "--sizes is 30, expected a multiple of 4 from 8 to "},
      {"--sizes 1048576G", "--sizes is 1125899906842624, expected a multiple of 4 from 8 to "},
      {"--ranks -1", "--ranks is -1, expected 1 to 1024"},
      {"--ranks 100000", "--ranks is 100000, expected 1 to 1024"},
  };
  for (const auto& c : cases) {
    const Outcome outcome = run("bench collectives " + c.arguments);
    EXPECT_EQ(outcome.code, 2) << c.arguments;
    EXPECT_THAT(outcome.err, HasSubstr(c.expected));
    EXPECT_EQ(outcome.out, "");
  }
}

}  // namespace
}  // namespace adjoin::cli
