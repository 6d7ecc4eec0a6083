#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

/// All files of a run but the flight records.
std::vector<std::pair<std::string, std::string>> files_but_records_of(const fs::path& run) {
  auto tree = tree_of(run);
  std::erase_if(tree, [](const auto& file) { return file.first.starts_with("flight"); });
  return tree;
}

/// A finished run, and what a command that names its folder as --out does to it.
class EarlierRun : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(run(kTrain + into(earlier())).code, 0); }

  void refuses(const std::string& arguments, const std::string& expected, int ranks = 0) {
    const auto before = tree_of(earlier());
    const Outcome outcome = run(arguments + into(earlier()), {.ranks = ranks});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("adjoin: --out " + earlier().string() + ": already holds a run; " + expected));
    EXPECT_EQ(tree_of(earlier()), before);
  }

  const std::string kTrain = kSmallRun + "--epochs 1";
  fs::path earlier() const { return folder_ / "earlier"; }
  TemporaryFolder folder_;
};

TEST_F(EarlierRun, is_not_replaced_by_a_command_that_is_repeated) {
  const std::string advice = "--resume " + earlier().string() + " continues it, --overwrite replaces it";
  refuses(kTrain, advice);
  refuses(kTrain + " --dp 2", advice, /*ranks=*/2);
  fs::remove(earlier() / "model.safetensors");  // as of one that has not finished
  refuses(kTrain, advice);
  fs::rename(checkpoint_of(earlier()), checkpoint_of(earlier()).string() + ".new");  // or crashed while it saved
  refuses(kTrain, advice);
}

TEST_F(EarlierRun, is_not_replaced_by_one_that_goes_on_from_elsewhere) {
  const fs::path other = folder_ / "other";
  ASSERT_EQ(run(kTrain + into(other)).code, 0);
  refuses("train --epochs 2 --resume " + shell_quoted(other), "--resume ");
}

TEST_F(EarlierRun, without_a_checkpoint_is_not_replaced_either) {
  fs::remove_all(earlier() / "checkpoints");
  refuses(kTrain, "--overwrite replaces it");
  refuses(kTrain + " --resume auto", "--overwrite replaces it");
}

TEST_F(EarlierRun, is_replaced_by_overwrite_which_a_resumed_run_does_not_inherit) {
  const Outcome outcome = run(kTrain + " --seed 2 --overwrite" + into(earlier()));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(contents_of(earlier() / "config.json"), HasSubstr("\"seed\": 2"));
  EXPECT_EQ(lines_of(contents_of(metrics_of(earlier()))).size(), 7u);  // six steps and the evaluation of one run

  const fs::path other = folder_ / "other";
  ASSERT_EQ(run(kTrain + into(other)).code, 0);
  EXPECT_EQ(run("train --epochs 2 --resume " + shell_quoted(earlier()) + into(other)).code, 2);
}

TEST_F(EarlierRun, is_left_whole_where_it_could_not_be_replaced) {
  fs::remove(metrics_of(earlier()));
  fs::create_directory(metrics_of(earlier()));
  const auto before = tree_of(earlier());
  const Outcome outcome = run(kTrain + " --overwrite" + into(earlier()));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("metrics.jsonl: cannot be opened for writing: Is a directory"));
  EXPECT_EQ(tree_of(earlier()), before);
}

TEST_F(EarlierRun, is_left_whole_by_one_that_fails_in_its_first_step) {
  const fs::path text = folder_ / "text.jsonl", tokens = folder_ / "tokens";
  const std::string document = R"({"text": ")" + std::string(1024, 'a') + "\"}\n";
  put(text, document + document);
  ASSERT_EQ(run("tokenize --vocab bytes --data " + shell_quoted(text) + " --out " + shell_quoted(tokens)).code, 0);
  std::string ids = contents_of(tokens / "train.tokens");
  for (size_t at = ids.find(std::string("a\0a\0", 4)); at < ids.size() && ids[at] == 'a'; at += 2)
    ids.replace(at, 2, "\xff\xff");
  put(tokens / "train.tokens", ids);
  const auto before = files_but_records_of(earlier());
  const Outcome outcome = run("train --model decoder --preset gpt-tiny --sequence 64 --epochs 1 --overwrite --data " +
                              shell_quoted(tokens) + into(earlier()));
  EXPECT_EQ(outcome.code, 2);
  const std::vector<std::string> errors = lines_of(outcome.err);
  ASSERT_EQ(errors.size(), 2u) << outcome.err;
  EXPECT_THAT(errors[0], HasSubstr("is 65535, the vocabulary has 257"));
  EXPECT_EQ(errors[1], "adjoin: see the last calls of all ranks: adjoin flight " + earlier().string());
  EXPECT_EQ(files_but_records_of(earlier()), before);
  // The flight record is always that of the last start.
  const auto flight = printed_json("flight " + shell_quoted(earlier()));
  EXPECT_EQ(flight.at("outcome"), "failed");
  EXPECT_EQ("adjoin: " + flight.at("failure").get<std::string>(), errors[0]);
}

TEST_F(EarlierRun, is_not_shortened_by_a_resumed_one) {
  const fs::path longer = folder_ / "longer";
  ASSERT_EQ(run(kSmallRun + "--epochs 2" + into(longer)).code, 0);
  const auto before = tree_of(longer);
  const Outcome outcome = run("train --epochs 1 --resume " + shell_quoted(longer));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(": the run has made 12 steps, but --epochs 1 makes 6"));
  EXPECT_EQ(tree_of(longer), before);
}

TEST_F(EarlierRun, leaves_no_file_to_one_of_another_model) {
  const std::string decoder =
      "train --model decoder --preset gpt-tiny --data sample --vocab bytes --layers 1 --hidden 8"
      " --heads 2 --sequence 256 --samples 8 --batch 4 --steps 1 --overwrite";
  const Outcome outcome = run(decoder + into(earlier()));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(earlier() / "vocab.model"));
  EXPECT_FALSE(fs::exists(earlier() / "vocab.txt"));
  EXPECT_FALSE(fs::exists(earlier() / "classes.json"));
}

}  // namespace
}  // namespace adjoin::cli
