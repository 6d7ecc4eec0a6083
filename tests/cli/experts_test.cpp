#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// kSmallRun with two blocks, of which the second has experts.
const std::string kOfExperts =
    "train --data sample --samples 48 --preset tiny --vocabulary-size 300 --layers 2 --hidden 16 --heads 4 --sequence "
    "32 "
    "--batch 8 --threads-per-rank 1 --experts 4 --moe-every 2 --precision fp64 ";

/// A training, whose progress is told on standard error.
Outcome train(const std::string& arguments) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome;
}

TEST(Experts, go_from_any_number_of_ranks_to_any_other) {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole", begun = folder / "begun";
  const std::string constant_rate = kOfExperts + "--schedule constant --warmup 0 ";
  train(constant_rate + "--steps 12" + into(whole));
  train(constant_rate + "--steps 5 --dp 4 --ep 4" + into(begun));
  train("train --resume " + shell_quoted(begun) + " --steps 9 --dp 2 --ep 2 --tp 2");
  train("train --resume " + shell_quoted(begun) + " --steps 12 --dp 2 --ep 1 --zero 3");
  const std::vector<double> found = losses_of(begun), expected = losses_of(whole);
  ASSERT_EQ(found.size(), 12u);
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(found[i], expected.at(i), 1e-9) << "step " << i;
}

/// What is told of experts, in files and by the commands that use the model.
TEST(Experts, are_told_in_metrics_summary_and_evaluation) {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const Outcome trained = train(kOfExperts + "--epochs 1 --dp 2 --ep 2" + into(out));
  EXPECT_THAT(trained.out, HasSubstr("1 block with 4 experts, 2 for each token\n"));
  EXPECT_THAT(trained.out, HasSubstr("2 ranks: dp 2 (ep 2), tp 1"));
  const json step = json::parse(lines_of(contents_of(metrics_of(out))).front());
  EXPECT_GE(step.at("fullest_expert").get<double>(), 1);
  EXPECT_GT(step.at("balance_loss").get<double>(), 0.9);
  EXPECT_GT(step.at("z_loss").get<double>(), 0);
  const json summary = json::parse(contents_of(out / "summary.json"));
  const auto rows = summary.at("expert_rows").at("block1").get<std::vector<int64_t>>();
  EXPECT_EQ(rows.size(), 4u);
  EXPECT_EQ(summary.at("expert_rows").size(), 1u);
  const std::string evaluate = "evaluate --data sample --samples 48 --model " + shell_quoted(out);
  const json one = printed_json(evaluate), two = printed_json(evaluate + " --dp 2 --ep 2");
  EXPECT_EQ(one.at("expert_rows"), summary.at("expert_rows"));
  EXPECT_EQ(two.at("expert_rows"), summary.at("expert_rows"));
  EXPECT_NEAR(one.at("loss").get<double>(), two.at("loss").get<double>(), 1e-12);
  const Outcome plan = run_well(kOfExperts + "--dp 2 --ep 2 --dry-run");
  EXPECT_THAT(plan.out, HasSubstr("all_to_all"));
  EXPECT_THAT(plan.out, HasSubstr("on a rank if its experts get the tokens of all ranks"));
}

TEST(Experts, write_texts_on_in_every_layout) {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  put(folder / "text.txt", "The ship sails on.\n\nThe ship sails on.\n\nIt is late.\n\n");
  train(
      "train --model decoder --preset gpt-tiny --hidden 32 --sequence 24 --batch 4 --epochs 4 --precision fp64 "
      "--vocab bytes --threads-per-rank 1 --experts 4 --dp 2 --ep 2 --data " +
      shell_quoted(folder / "text.txt") + into(out));
  const std::string generate = "generate --tokens 20 --model " + shell_quoted(out) + " 'The ' ";
  const Outcome one = run_well(generate);
  EXPECT_THAT(one.out, StartsWith("The "));
  for (const char* layout : {"--tp 2", "--pp 2"}) EXPECT_EQ(run_well(generate + layout).out, one.out) << layout;
}

TEST(Experts, refuse_wrong_numbers_in_one_line) {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& arguments, const std::string& expected) {
    const Outcome outcome = run(kSmallRun + arguments + into(folder / "out"));
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(expected));
    EXPECT_FALSE(fs::exists(folder / "out")) << arguments;
  };
  refuses("--experts 2 --top-k 3", "--top-k 3 is more than --experts 2");
  refuses("--top-k 2", "--top-k 2 is more than --experts 1");
  refuses("--experts 0", "--experts is 0, expected 1 to ");
  refuses("--experts 4 --ep 2", "--ep 2 does not divide --dp 1");
  refuses("--experts 4 --ep 2 --dp 3", "--ep 2 does not divide --dp 3");
  refuses("--experts 4 --ep 3 --dp 3", "--ep 3 does not divide --experts 4");
  refuses("--balance-loss 1", "--balance-loss is for --experts of 2 or more, and --experts is 1");
  refuses("--no-normalise-gates", "--normalise-gates is for --experts of 2 or more");
  refuses("--ep 2 --dp 2", "--ep 2 does not divide --experts 1");
  refuses("--experts 4 --moe-every 2", "--moe-every 2 is more than --layers 1");
  refuses("--experts 4 --ep 0 --dp 2", "--ep is 0, expected 1 to ");
  refuses("--experts 4 --balance-loss -1", "--balance-loss is -1, expected 0 to ");

  const fs::path out = folder / "run";
  train(kOfExperts + "--epochs 1" + into(out));
  const Outcome resumed = run("train --experts 8 --epochs 2 --resume " + shell_quoted(out));
  EXPECT_EQ(resumed.code, 2);
  EXPECT_THAT(resumed.err, HasSubstr("--experts"));
}

}  // namespace
}  // namespace adjoin::cli
