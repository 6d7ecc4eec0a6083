#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using nlohmann::json;
using test::contents_of;
using test::Outcome;
using test::printed_json;
using test::put;
using test::run;
using test::shell_quoted;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kShortSleeps = " --microbatches 4 --forward 2 --backward 1 --weight 1 --times 1 ";
const std::string kSmallStep =
    "bench step --preset tiny --layers 2 --batch 8 --microbatches 4 --warm-up 1 --steps 2 --threads-per-rank 1 ";
const std::string kSmallPipeline = kSmallStep + "--pp 2 ";

TEST(BenchPipeline, times_each_schedule_beside_its_simulation) {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved --chunks 2", "zb-h1"}) {
    const json found = printed_json("bench pipeline " + schedule + " --ranks 2" + kShortSleeps);
    EXPECT_EQ(found["ranks"], 2);
    EXPECT_EQ(found["microbatches"], 4);
    // What a rank sleeps at least, 4 micro-batches of 4 ms, and no simulation is longer than measured.
    EXPECT_GE(found["simulated_seconds"].get<double>(), 0.016) << schedule;
    EXPECT_GE(found["ratio"].get<double>(), 1) << schedule;
  }
}

TEST(BenchPipeline, runs_on_the_ranks_of_an_mpi_job) {
  EXPECT_EQ(printed_json("bench pipeline zb-h1" + kShortSleeps, {.ranks = 3})["ranks"], 3);
  EXPECT_THAT(run("bench pipeline 1f1b --ranks 2" + kShortSleeps, {.ranks = 3}).err, HasSubstr("the MPI job has 3"));
}

TEST(BenchPipeline, runs_a_file_and_says_for_people_how_long_it_took) {
  const TemporaryFolder folder;
  const std::string csv = shell_quoted(folder / "my.csv");
  ASSERT_EQ(run("pipeline zb-h1 --ranks 2 --microbatches 4 --csv " + csv).code, 0);
  const Outcome outcome = run("bench pipeline " + csv + kShortSleeps);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("my.csv on 2 ranks, 4 micro-batches\n"), HasSubstr("simulated  0.0"),
                                 ContainsRegex("measured   [0-9.]+ s\n"), HasSubstr("ratio      ")));
}

TEST(BenchPipeline, has_no_ratio_where_nothing_sleeps) {
  EXPECT_EQ(printed_json("bench pipeline 1f1b --forward 0 --backward 0 --weight 0 --times 1")["ratio"], nullptr);
}

TEST(BenchPipeline, refuses_bad_input) {
  const std::pair<const char*, const char*> cases[] = {
      {"2f2b", "unknown schedule \"2f2b\""},
      {"", "a schedule is needed"},
      {"1f1b --chunks 2", "--chunks has no effect on 1f1b"},
      {"1f1b --ranks 0", "--ranks is 0, expected 1 to 1024"},
      {"1f1b --ranks 2000", "--ranks is 2000, expected 1 to 1024"},
      {"1f1b --microbatches 0", "--microbatches is 0"},
      {"1f1b --forward -1", "--forward is -1, expected 0 to 1e+06"},
      {"1f1b --weight 1e7", "--weight is 1e+07, expected 0 to 1e+06"},
      {"1f1b --times 0", "--times is 0, expected 1 to 1000"},
      {"/none.csv", "/none.csv"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run(std::string("bench pipeline ") + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("adjoin: "), HasSubstr(message))) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
}

TEST(BenchStep, prints_the_bubble_of_a_pipeline_measured_and_simulated) {
  for (const std::string how :
       {"--pipeline 1f1b", "--pipeline zb-h1", "--pipeline interleaved --chunks 2 --stages 1,1,1,1"}) {
    const json found = printed_json(kSmallPipeline + how);
    for (const char* bubble : {"bubble", "simulated_bubble"}) {
      EXPECT_GT(found[bubble].get<double>(), 0) << how;
      EXPECT_LT(found[bubble].get<double>(), 1) << how;
    }
    EXPECT_EQ(found["peak_memory_bytes"].size(), 2) << how;
    EXPECT_GT(found["matmul_fraction"].get<double>(), 0) << how;
  }
  EXPECT_TRUE(printed_json(kSmallPipeline, {.ranks = 2}).contains("bubble"));
  EXPECT_TRUE(printed_json(kSmallPipeline + "--tp 2").contains("bubble"));
  EXPECT_FALSE(printed_json(kSmallStep).contains("bubble"));
  EXPECT_THAT(run(kSmallPipeline).out, AllOf(HasSubstr("bubble 0."), HasSubstr(" simulated")));
}

TEST(BenchStep, refuses_pipelines_that_are_none) {
  const std::pair<const char*, const char*> cases[] = {
      {"--pp 5", "but the model has only 4 segments"},
      {"--pp 2 --chunks 2", "--chunks is for --pipeline interleaved"},
      {"--pp 2 --pipeline 2f2b", "--pipeline is \"2f2b\""},
      {"--pp 2 --stages 4,1", "--stages 4,1"},
      {"--pp 2 --stages 2,1,1", "--stages 2,1,1"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run(kSmallStep + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("adjoin: "), HasSubstr(message))) << arguments;
  }
}

}  // namespace
}  // namespace adjoin::cli
