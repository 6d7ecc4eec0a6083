#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

size_t steps_of(const fs::path& run) {
  return lines_of_kind(run, "step").size();
}

TEST(RunLength, is_of_so_many_steps_within_an_epoch_or_over_several) {
  const TemporaryFolder folder;
  for (const size_t steps : {4, 15}) {  // an epoch has 6
    const fs::path run_folder = folder / std::to_string(steps);
    const Outcome outcome = run(kSmallRun + "--steps " + std::to_string(steps) + into(run_folder));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("\n" + std::to_string(steps) + " steps in batches of 8\n"));
    EXPECT_EQ(steps_of(run_folder), steps);
    EXPECT_TRUE(fs::exists(run_folder / "summary.json"));
  }
  EXPECT_EQ(run("train --resume " + shell_quoted(folder / "4") + " --steps 9").code, 0);
  EXPECT_EQ(steps_of(folder / "4"), 9u);
}

TEST(RunLength, ends_in_time_with_a_model_and_goes_on) {
  const TemporaryFolder folder;
  const Outcome outcome = run(kSmallRun + "--dp 2 --epochs 100000 --max-time 0.5" + into(folder / "run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const size_t steps = steps_of(folder / "run");
  EXPECT_GE(steps, 1u);
  EXPECT_TRUE(fs::exists(folder / "run" / "model.safetensors"));
  EXPECT_EQ(run("train --max-time 0.1 --resume " + shell_quoted(folder / "run")).code, 0);
  EXPECT_GT(steps_of(folder / "run"), steps);
}

TEST(OneFile, gives_both_parts_with_every_tenth_text_of_a_class_to_test) {
  const TemporaryFolder folder;
  std::string rows = "text,label\n";
  for (int i = 0; i < 25; ++i) rows += "a good film number " + std::to_string(i) + ",1\n";
  for (int i = 0; i < 20; ++i) rows += "a bad film number " + std::to_string(i) + ",0\n";
  put(folder / "all.csv", rows);
  const std::string train = "train --epochs 1" + kSmallModel + "--data " + shell_quoted(folder / "all.csv");
  const Outcome outcome = run(train + into(folder / "run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("41 training and 4 test texts from "));
  EXPECT_THAT(
      run("evaluate --model " + shell_quoted(folder / "run") + " --data " + shell_quoted(folder / "all.csv")).out,
      HasSubstr("  4 samples"));
  put(folder / "few.csv", "text,label\na good film,1\na bad film,0\n");
  const Outcome few = run("train --data " + shell_quoted(folder / "few.csv") + into(folder / "none"));
  EXPECT_EQ(few.code, 2);
  EXPECT_THAT(few.err, HasSubstr("few.csv: expected a class of at least 10 texts"));
}

TEST(DecoderSamples, limit_the_sequences) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run("train --data sample --model decoder --preset gpt-tiny --layers 1 --hidden 16 --batch 4 "
          "--epochs 1 --vocab bytes --samples 10" +
          into(folder / "run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\n3 steps: 1 epoch in batches of 4\n"));
}

TEST(Summary, tells_by_what_where_and_when) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(kSmallRun + "--steps 1" + into(folder / "run")).code, 0);
  const json summary = json::parse(contents_of(folder / "run" / "summary.json"));
  EXPECT_EQ("adjoin " + summary.at("adjoin").get<std::string>() + "\n", run("--version").out.substr(0, 13));
  EXPECT_THAT(summary.at("libtorch").get<std::string>(), HasSubstr("."));
  EXPECT_NE(summary.at("host"), "");
  EXPECT_THAT(summary.at("date").get<std::string>(), MatchesRegex("20..-..-..T..:..:..Z"));
}

TEST(OutputFolder, that_cannot_be_written_is_told_before_texts_are_read) {
  const Outcome outcome = run(kSmallRun + " --out /proc/adjoin");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("/proc/adjoin"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("vocabulary")));
}

}  // namespace
}  // namespace adjoin::cli
