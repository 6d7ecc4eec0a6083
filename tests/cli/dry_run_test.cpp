#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DryRun, tells_the_plan_of_more_ranks_than_there_are_cores_and_writes_nothing) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run("train --data sample --preset tiny --heads 8 --dp 8 --tp 8 --dry-run" + into(folder / "run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("64 ranks: dp 8, tp 8"));
  EXPECT_THAT(outcome.out, HasSubstr("  0-63 "));
  EXPECT_THAT(outcome.out, HasSubstr("reduce_scatter"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  for (const std::string& line : lines_of(outcome.out)) EXPECT_LE(line.size(), 80u) << line;
}

/// Of the first rank of a plan: the bytes of the copies that a save makes, and of all else.
std::pair<double, double> copies_and_highest(const std::string& plan) {
  const size_t row = plan.find("\n  0");
  EXPECT_NE(row, std::string::npos) << plan;
  std::istringstream line(plan.substr(row + 1, plan.find('\n', row + 1) - row - 1));
  const std::vector<std::string> words{std::istream_iterator<std::string>(line), {}};
  const double unit = plan.find("within a tenth, in KiB") == std::string::npos ? 1 << 20 : 1 << 10;
  const size_t copies = plan.find("\n  and ");
  return {copies == plan.npos ? 0 : unit * std::stod(plan.substr(copies + 7)), unit * std::stod(words.back())};
}

TEST(DryRun, counts_the_weights_that_validation_keeps_and_what_a_save_copies) {
  const TemporaryFolder folder;
  const std::string train =
      "train --data sample --samples 400 --preset tiny --validation 0.1 --epochs 2 --eval-every 2 --checkpoint-every 4 "
      "--dp 2 --threads-per-rank 1 ";
  std::map<std::string, double> measured;
  for (const std::string save : {"wait", "background"}) {
    const auto [copies, highest] = copies_and_highest(run(train + "--dry-run --save " + save).out);
    ASSERT_EQ(run(train + "--save " + save + into(folder / save)).code, 0);
    const auto summary = nlohmann::json::parse(contents_of(folder / save / "summary.json"));
    const auto& rank = summary.at("ranks").at(0);
    const double peak = measured[save] = rank.at("peak_memory_bytes").get<double>();
    EXPECT_NEAR((copies + highest) / peak, 1, 0.1) << save;
    // AdamW's two moments, the weights and the best of them, in float32, of which each of two ranks copies a half.
    const double bytes = 4 * rank.at("parameters").get<double>() * (2 + 1 + 1) / 2;
    EXPECT_NEAR(copies / bytes, save == "wait" ? 0 : 1, 0.06) << save;  // 0.1 MiB of 1 or more
    EXPECT_NEAR((peak - measured["wait"]) / bytes, save == "wait" ? 0 : 1, 0.1) << save;
  }
}

TEST(DryRun, prints_one_json_object_of_what_its_tables_say) {
  const std::string train = "train --data sample --preset tiny --cp 2 --tp 2 --pp 2 --microbatches 4 --dry-run";
  const Outcome outcome = run(train + " --json"), table = run(train);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto plan = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(plan.at("layout"), "dp 1, pp 2, cp 2, tp 2");
  ASSERT_EQ(plan.at("ranks").size(), 8U);
  const auto& rank = plan.at("ranks").at(0);
  const double peak = rank.at("peak_memory_bytes").get<double>();
  EXPECT_NEAR(copies_and_highest(table.out).second / peak, 1, 0.02);
  const auto held = rank.at("weight_bytes").get<double>() + rank.at("moment_bytes").get<double>();
  EXPECT_GE(peak, held + rank.at("activation_bytes").get<double>());
  for (const auto& call : rank.at("calls")) EXPECT_THAT(table.out, HasSubstr(call.at("operation").get<std::string>()));
  const Outcome alone = run("train --data sample --preset tiny --json" + into("nowhere"));
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--json prints the plan of --dry-run, which is not given"));
}

TEST(DryRun, looks_at_no_output_folder) {
  const TemporaryFolder folder;
  put(folder / "taken", "a file");
  const Outcome outcome = run("train --data sample --preset tiny --dry-run" + into(folder / "taken"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(DryRun, needs_no_folder_and_tells_of_one_rank_no_calls) {
  const Outcome outcome = run("train --data sample --preset gpt-tiny --dry-run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("highest"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("operation")));
}

TEST(DryRun, goes_through_the_longest_sequences) {
  const TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 1024; ++i)
    rows += R"({"text": "a"})"
            "\n";
  put(folder / "train.jsonl", rows + R"({"text": ")" + std::string(4096, 'a') + "\"}\n");
  put(folder / "test.jsonl", R"({"text": "abc"})"
                             "\n");
  const Outcome outcome = run("train --data " + shell_quoted(folder.path()) +
                              " --vocab bytes --model decoder --preset gpt-tiny --sequence 512 --batch 4 --dry-run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("a rank goes through at most 2,048 tokens at once"));
}

TEST(DryRun, tells_of_split_sequences_and_of_what_is_computed_again) {
  const Outcome outcome = run("train --data sample --preset gpt-tiny --cp 2 --tp 2 --sp --recompute segment --dry-run");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("4 ranks: dp 1, cp 2, tp 2, sp"));
  EXPECT_THAT(outcome.out, HasSubstr("messages"));
  const Outcome attention = run("train --data sample --preset gpt-tiny --cp 2 --recompute attention --dry-run");
  EXPECT_THAT(attention.out,
              HasSubstr("--recompute attention acts like none: only --cp-method gathered keeps scores\n"));
  const Outcome gathered = run("train --data sample --preset gpt-tiny --cp 2 --cp-method gathered --dry-run");
  EXPECT_THAT(gathered.out, HasSubstr("all_gather"));
  const Outcome alone =
      run("train --data sample --preset gpt-tiny --cp-method gathered --recompute attention --dry-run");
  const std::string remark = "--recompute attention acts like none: with --cp 1 attention keeps no scores\n";
  EXPECT_THAT(alone.out, HasSubstr(remark));
  EXPECT_THAT(run("bench step --preset tiny --steps 0 --recompute attention").out, StartsWith(remark));
  const auto decoder = [](const std::string& activation) {
    return run("bench step --steps 0 --json --preset gpt-tiny --batch 2 --activation " + activation).out;
  };
  EXPECT_NE(decoder("gelu"), decoder("swiglu")) << "a classifier, which has no other activation, was measured";
}

TEST(DryRun, refuses_what_training_would) {
  const auto refused = [](const std::string& options) {
    const Outcome outcome = run("train --data sample --preset tiny --dry-run " + options);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_THAT(refused("--tp 5"), HasSubstr("--tp"));
  EXPECT_THAT(refused("--pp 9"), HasSubstr("--pp 9 makes 9 stages"));
  EXPECT_THAT(refused("--cp 65"), HasSubstr("--cp 65 is more than --sequence 64"));
  EXPECT_THAT(refused("--sp"), HasSubstr("--tp is 1"));
  EXPECT_THAT(refused("--dp 1025"), HasSubstr("a dry run plans at most 1024"));
  EXPECT_THAT(refused("--microbatches 1000"), HasSubstr("--microbatches"));
}

}  // namespace
}  // namespace adjoin::cli
