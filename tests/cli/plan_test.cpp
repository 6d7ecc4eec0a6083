#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Of few methods, so that the test is quick.
const std::string kFewMethods = "--recompute none --zero 1 --pipeline 1f1b --cp-method ring ";
const std::string kSmallPlan = "plan --data sample --samples 48 " + kSmallModel + kFewMethods;
// Whose calls are computed: where other programs run, calls of threads are measured again and again.
const std::string kTwoHosts = kSmallPlan + "--microbatches 2 --ranks 2 --hosts 2 --alpha 1e-6 --beta 1e-10 ";

TEST(PlanCommand, tells_layouts_with_their_options) {
  const Outcome outcome = run_well(kTwoHosts + "--memory 1G --lines 3");
  EXPECT_THAT(outcome.out, HasSubstr("2 ranks, "));
  EXPECT_THAT(outcome.out, ContainsRegex("--(dp|pp|cp|tp) 2"));  // whichever is the quickest
  EXPECT_THAT(outcome.out, HasSubstr("more (--lines 0: all)"));
  for (const std::string& line : lines_of(outcome.out)) EXPECT_LE(line.size(), 80U) << line;
}

TEST(PlanCommand, prints_one_json_object_with_all_of_it) {
  const auto json = nlohmann::json::parse(run_well(kTwoHosts + "--json").out);
  const auto& layouts = json.at("layouts");
  ASSERT_GT(layouts.size(), 3U);
  const auto& first = layouts.at(0);
  EXPECT_GT(first.at("memory_bytes"), 0);
  for (const auto& layout : layouts) {
    EXPECT_EQ(layout.at("dp").get<int>() * layout.at("pp").get<int>() * layout.at("cp").get<int>() *
                  layout.at("tp").get<int>(),
              2);
    EXPECT_GE(layout.at("step_seconds"), first.at("step_seconds"));
  }
}

TEST(PlanCommand, prints_how_long_steps_took_of_the_layouts_that_it_checks) {
  const std::string plan = "plan --data sample --samples 48 --ranks 1 " + kSmallModel;
  const auto json = nlohmann::json::parse(run_well(plan + "--json --check 1").out);
  ASSERT_EQ(json.at("layouts").size(), 2U);  // which keep what backward needs, or compute it again
  int checked = 0;                           // the first, unless the check refuted the plan, which is then made again
  for (const auto& layout : json.at("layouts")) {
    if (!layout.contains("measured_step_seconds")) continue;
    ++checked;
    EXPECT_GT(layout.at("measured_step_seconds"), 0);
  }
  EXPECT_EQ(checked, 1);
}

TEST(PlanCommand, refuses_what_it_cannot_plan_in_one_line) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "--ranks is needed"},
      {"--ranks 0", "--ranks is 0"},
      {"--ranks 2 --memory 0", "--memory is 0, expected bytes as in 512M or 2G"},
      {"--ranks 2 --memory ''", "--memory is empty, expected a number of bytes"},
      {"--ranks 2 --memory 1X", "--memory is 1X, expected a number of bytes"},
      {"--ranks 2 --memory 1", "the least is"},
      {"--ranks 2 --dp 2", "--dp is given with --ranks"},
      {"--ranks 2 --cp 2", "--cp is given with --ranks"},
      {"--ranks 2 --tp 2", "--tp is given with --ranks"},
      {"--ranks 2 --pp 2", "--pp is given with --ranks"},
      {"--ranks 2 --ep 1", "--ep is given with --ranks"},
      {"--ranks 4 --hosts 3 --alpha 1e-6 --beta 1e-10", "--hosts 3 does not divide --ranks 4"},
      {"--ranks 4 --hosts 2", "--hosts needs --alpha and --beta"},
      {"--ranks 4 --alpha 1e-6 --beta 1e-10", "--alpha and --beta describe a network"},
      {"--ranks 4 --hosts 2 --alpha -1 --beta 0", "--alpha is -1"},
      {"--ranks 37", "train accepts no layout of so many ranks"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run(kSmallPlan + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
  }
}

TEST(PlanCommand, of_a_dry_run_in_json_says_nothing_beside_it) {
  const std::string refused = kSmallRun + "--ranks 37 --dry-run";
  EXPECT_THAT(run(refused).out, HasSubstr("planning; "));
  EXPECT_EQ(run(refused + " --json").out, "");
}

void expect_decided(const Outcome& outcome, const std::filesystem::path& run, size_t ranks) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              ContainsRegex("layout: --[a-z]+ " + std::to_string(ranks) + ".* \\(.*s a step predicted\\)"));
  EXPECT_EQ(nlohmann::json::parse(contents_of(run / "summary.json")).at("ranks").size(), ranks);
}

TEST(PlanCommand, decides_the_layout_of_a_training_which_says_so) {
  const TemporaryFolder folder;
  const Outcome outcome = run(kSmallRun + "--epochs 1 --recompute none --ranks 1 --memory 1G" + into(folder / "run"));
  expect_decided(outcome, folder / "run", 1);
}

TEST(PlanCommand, decides_the_same_layout_on_all_processes_of_a_job) {
  const TemporaryFolder folder;
  const std::string options = kSmallRun + "--epochs 1 --microbatches 2 " + kFewMethods + "--ranks ";
  expect_decided(run(options + "2" + into(folder / "run"), {.ranks = 2}), folder / "run", 2);
  const Outcome other = run(options + "4" + into(folder / "other"), {.ranks = 2});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("--ranks 4: the MPI job has 2"));
}

TEST(PlanCommand, refuses_a_training_that_names_ranks_and_a_grid) {
  const TemporaryFolder folder;
  for (const char* option : {"--dp 2", "--cp 2", "--tp 2", "--pp 2", "--ep 1"}) {
    const Outcome outcome = run(kSmallRun + "--ranks 2 " + option + into(folder / "run"));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("is given with --ranks"));
  }
  const Outcome outcome = run(kSmallRun + "--memory 1G" + into(folder / "run"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("which needs --ranks"));
}

}  // namespace
}  // namespace adjoin::cli
