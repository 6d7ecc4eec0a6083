#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;

/// A model of five segments: embedding, three blocks and head.
const std::string kSmallStages =
    "train --data sample --samples 48 --preset tiny --vocabulary-size 200 --layers 3 --hidden 16 --heads 2 --sequence "
    "24 "
    "--batch 8 --threads-per-rank 1 ";
const std::string kShortRun = kSmallStages + "--precision fp64 --epochs 3 --validation 0.2 --microbatches 3 ";

json results_of(const fs::path& run) {
  return json::parse(contents_of(run / "summary.json"));
}

void expect_near(double a, double b) {
  EXPECT_LE(std::abs(a - b), 1e-9 * std::abs(b)) << a << " and " << b;
}

TEST(PipelineTraining, gives_one_workers_model_with_validation_and_evaluation) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(kShortRun + into(folder / "one")).code, 0);
  const json one = results_of(folder / "one");
  for (const char* layout : {"--pp 2", "--pp 2 --dp 2 --pipeline zb-h1", "--pp 2 --pipeline interleaved --chunks 2",
                             "--pp 3 --stages 1,1,3 --pipeline gpipe"}) {
    const Outcome outcome = run(kShortRun + layout + " --overwrite" + into(folder / "run"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json found = results_of(folder / "run");
    for (const char* what : {"train_loss", "test_loss", "validation_loss"}) expect_near(found.at(what), one.at(what));
  }
  EXPECT_EQ(results_of(folder / "run").at("ranks").at(2).at("stages"), json({2}));
  const std::string evaluate = "evaluate --json --data sample --samples 40 --model " + shell_quoted(folder / "run");
  const json alone = json::parse(run(evaluate).out), staged = json::parse(run(evaluate + " --pp 2 --dp 2").out);
  expect_near(staged.at("loss"), alone.at("loss"));
  EXPECT_EQ(staged.at("confusion"), alone.at("confusion"));
}

TEST(PipelineTraining, goes_on_in_another_layout) {
  const TemporaryFolder folder;
  const std::string as_long_as_asked = kShortRun + "--schedule constant --warmup 0 --steps ";
  ASSERT_EQ(run(as_long_as_asked + "12" + into(folder / "whole")).code, 0);
  ASSERT_EQ(run(as_long_as_asked + "7 --pp 3 --stages 1,2,2" + into(folder / "run")).code, 0);
  const std::string resume = "train --resume " + shell_quoted(folder / "run") + " --steps ";
  for (const char* further : {"9 --pp 2 --pipeline zb-h1", "12 --pp 1 --tp 2"}) {
    const Outcome outcome = run(resume + further);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  for (const char* what : {"test_loss", "validation_loss"})
    expect_near(results_of(folder / "run").at(what), results_of(folder / "whole").at(what));
}

TEST(PipelineTraining, on_mpi_gives_the_losses_of_threads) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(kShortRun + "--pp 2 --pipeline zb-h1" + into(folder / "threads")).code, 0);
  const Outcome outcome = run(kShortRun + "--pp 2 --pipeline zb-h1" + into(folder / "mpi"), {.ranks = 2});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_near(results_of(folder / "mpi").at("test_loss"), results_of(folder / "threads").at("test_loss"));
}

TEST(PipelineTraining, keeps_the_schedule_of_a_file_in_the_run) {
  const TemporaryFolder folder;
  const fs::path table = folder / "v.csv";
  put(table, "0F0,,,3F0,3B0,,,0B0\n,1F0,2F0,,,2B0,1B0\n");
  const Outcome first = run(kSmallStages + "--pp 2 --steps 2 --pipeline " + shell_quoted(table) + into(folder / "run"));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("rank  stages"));
  fs::remove(table);
  const std::string resume = "train --resume " + shell_quoted(folder / "run") + " --steps ";
  for (const std::string& further :
       {std::string("3"), "4" + into(folder / "other"), std::string("5 --pp 1 --pipeline gpipe")}) {
    const Outcome outcome = run(resume + further);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("\npipeline ")) << further;
  }
  EXPECT_EQ(contents_of(folder / "other" / "pipeline.csv"), "0F0,,,3F0,3B0,,,0B0\n,1F0,2F0,,,2B0,1B0\n");
  EXPECT_FALSE(fs::exists(folder / "run" / "pipeline.csv"));
  const std::string again =
      "train --out " + shell_quoted(folder / "again") + " --config " + shell_quoted(folder / "other" / "config.json");
  EXPECT_EQ(run(again).code, 0);
}

TEST(PipelineTraining, is_told_before_it_runs) {
  const TemporaryFolder folder;
  const Outcome outcome = run(kSmallStages + "--pp 2 --dry-run" + into(folder / "run"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("pipeline 1f1b: 2 stages, 1 micro-batch, ranks idle about 50 % of the time"));
  EXPECT_THAT(outcome.out, HasSubstr("share of the cost"));
  EXPECT_THAT(outcome.out, HasSubstr("to head"));
  for (const std::string& line : lines_of(outcome.out)) EXPECT_LE(line.size(), 80u) << line;
}

TEST(PipelineTraining, refuses_what_does_not_fit_before_anything_is_written) {
  const TemporaryFolder folder;
  put(folder / "odd.csv", "0F0,0X0\n1F0,1B0\n");
  put(folder / "two.csv", "0F0,,,0B0\n,1F0,1B0\n");
  const auto refusal = [&](const std::string& arguments) {
    const Outcome outcome = run(kSmallStages + arguments + into(folder / "run"));
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_FALSE(fs::exists(folder / "run")) << arguments;
    return outcome.err;
  };
  EXPECT_THAT(refusal("--pp 2 --pipeline interleaved --chunks 3"),
              HasSubstr("--pp 2 with --chunks 3 makes 6 stages, but the model has only 5 segments"));
  EXPECT_THAT(refusal("--pp 6"), HasSubstr("--pp 6 makes 6 stages, but the model has only 5 segments"));
  EXPECT_THAT(refusal("--pp 2 --chunks 2"), HasSubstr("--chunks is for --pipeline interleaved"));
  EXPECT_THAT(refusal("--pp 2 --stages 2,2"),
              HasSubstr("--stages 2,2: the sum is 4, expected 5, the number of the model's segments"));
  EXPECT_THAT(refusal("--pp 2 --stages 5"), HasSubstr("--stages 5: expected 2 numbers, one for each stage, got 1"));
  EXPECT_THAT(refusal("--pp 2 --stages 1,4,"), HasSubstr("--stages 1,4,: expected a number on each side of a comma"));
  EXPECT_THAT(refusal("--pp 2 --stages 2,x"), HasSubstr("--stages"));
  EXPECT_THAT(refusal("--pp 2 --stages 0,5"), HasSubstr("--stages 0,5"));
  EXPECT_THAT(refusal("--pp 2 --pipeline zigzag"), HasSubstr("--pipeline is \"zigzag\", expected one of gpipe"));
  EXPECT_THAT(refusal("--pp 0"), HasSubstr("--pp is 0"));
  EXPECT_THAT(refusal("--pp 2 --pipeline " + shell_quoted(folder / "odd.csv")), HasSubstr("0X0"));
  EXPECT_THAT(refusal("--pp 2 --pipeline " + shell_quoted(folder / "none.csv")), HasSubstr("none.csv"));
  EXPECT_THAT(refusal("--pp 3 --pipeline " + shell_quoted(folder / "two.csv")), HasSubstr("two.csv"));
  EXPECT_THAT(refusal("--pp 2 --microbatches 2 --pipeline " + shell_quoted(folder / "two.csv")), HasSubstr("two.csv"));
}

}  // namespace
}  // namespace adjoin::cli
