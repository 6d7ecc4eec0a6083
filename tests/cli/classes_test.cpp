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

constexpr const char* kTrain =
    "{\"body\": \"a good film\", \"topic\": \"film\"}\n{\"body\": \"a fast goal\", \"topic\": \"sport\"}\n"
    "{\"body\": \"a new law\", \"topic\": \"politics\"}\n{\"body\": \"a dull film\", \"topic\": \"film\"}\n";
const std::string kColumns = " --text-column body --label-column topic ";

/// A model of three classes, which words name.
class ThreeClasses : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    put(*folder_ / "train.jsonl", kTrain);
    put(*folder_ / "test.jsonl", kTrain);
    trained_ = run("train --data " + shell_quoted(folder_->path()) + kColumns + kSmallModel + "--epochs 1 --tp 2" +
                   into(model()));
    ASSERT_EQ(trained_.code, 0) << trained_.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static fs::path model() { return *folder_ / "model"; }
  static std::string of_model() { return " --model " + shell_quoted(model()) + " "; }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline Outcome trained_{};
};

TEST_F(ThreeClasses, are_counted_when_training_begins_and_saved_with_the_model) {
  EXPECT_EQ(lines_of(trained_.out)[0],
            "4 training and 4 test texts from " + folder_->path().string() + ", in 3 classes");
  EXPECT_EQ(json::parse(contents_of(model() / "classes.json")), (json{"film", "politics", "sport"}));
  EXPECT_TRUE(fs::exists(checkpoint_of(model()) / "classes.json"));
}

TEST_F(ThreeClasses, are_what_predict_prints) {
  const Outcome outcome = run("predict 'a goal'" + of_model());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, MatchesRegex("(film|politics|sport)\t(0\\.[3-9][0-9][0-9][0-9]|1\\.0000)\n"));
}

TEST_F(ThreeClasses, are_evaluated_each_and_once_in_every_layout) {
  const std::string evaluate = "evaluate --data " + shell_quoted(folder_->path()) + of_model();
  const Outcome table = run(evaluate);
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("  film            2  "));
  EXPECT_THAT(table.out, HasSubstr("  is \\ taken for  film  politics  sport\n"));
  const json expected = json::parse(run(evaluate + "--json").out);
  EXPECT_EQ(expected.at("classes"), (json{"film", "politics", "sport"}));
  EXPECT_EQ(expected.at("f1").size(), 3u);
  int64_t pairs = 0;
  for (const json& row : expected.at("confusion"))
    for (const int64_t count : row) pairs += count;
  EXPECT_EQ(pairs, 4);
  for (const std::string layout : {"--dp 3", "--tp 2", "--dp 2 --tp 2"})
    EXPECT_EQ(json::parse(run(evaluate + "--json " + layout).out).at("confusion"), expected.at("confusion")) << layout;
}

TEST_F(ThreeClasses, refuse_a_label_that_training_did_not_know) {
  const auto refused = [](const std::string& arguments, const std::string& expected) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2);
    ASSERT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(expected));
  };
  put(*folder_ / "other.tsv", "topic\tbody\nfilm\ta\nart\tb\n");
  const std::string unknown = "other.tsv:3: unknown label \"art\"; expected one of \"film\", \"politics\", \"sport\"";
  refused("evaluate --data " + shell_quoted(*folder_ / "other.tsv") + of_model(), unknown);
  put(*folder_ / "named.csv", "a,b\nx,film\n");
  refused("evaluate --data " + shell_quoted(*folder_ / "named.csv") + of_model(),
          "named.csv:1: no column \"body\" (--text-column); found: \"a\", \"b\"");
  EXPECT_EQ(
      run("evaluate --text-column a --label-column b --data " + shell_quoted(*folder_ / "named.csv") + of_model()).code,
      0);
  const TemporaryFolder data;
  put(data / "train.tsv", "topic\tbody\nart\ta\n");
  put(data / "test.tsv", "topic\tbody\nart\ta\n");
  refused("train --epochs 2 --resume " + shell_quoted(model()) + " --data " + shell_quoted(data.path()),
          "train.tsv:2: unknown label \"art\"");
}

TEST_F(ThreeClasses, of_a_model_saved_before_are_negative_and_positive) {
  const TemporaryFolder folder;
  const fs::path run_folder = folder / "run";
  ASSERT_EQ(run(kSmallRun + "--epochs 1" + into(run_folder)).code, 0);
  const std::string predict = "predict good --model " + shell_quoted(run_folder);
  const Outcome with = run(predict);
  fs::remove(run_folder / "classes.json");
  EXPECT_EQ(run(predict).out, with.out);
  EXPECT_THAT(with.out, MatchesRegex("(positive|negative)\t.*\n"));
  for (const auto& [content, expected] : {std::pair{"{", "classes.json: this is not a list of names"},
                                          {"[\"a\", \"a\"]", "classes.json: two classes are named"},
                                          {"[\"a\"]", "but the model's has"}}) {
    put(run_folder / "classes.json", content);
    const Outcome outcome = run(predict);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(expected));
  }
}

TEST(ClassWeights, give_the_same_losses_on_every_layout) {
  const TemporaryFolder folder;
  int runs = 0;
  const auto losses = [&](const std::string& arguments) {
    const fs::path out = folder / std::to_string(++runs);
    const Outcome outcome = run(kSmallRun + "--precision fp64 --steps 3 " + arguments + into(out));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return losses_of(out);
  };
  const std::string weights = "--class-weights 1,3 ";
  const std::vector<double> one = losses(weights);
  EXPECT_NE(one, losses(""));
  for (const char* layout : {"--dp 2", "--cp 2 --microbatches 3", "--pp 2 --tp 2"}) {
    const std::vector<double> found = losses(weights + layout);
    ASSERT_EQ(found.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(found[i], one[i], 1e-9 * one[i]) << layout;
  }
  EXPECT_EQ(run(kSmallRun + "--class-weights balanced --dry-run").code, 0);
  EXPECT_THAT(run(kSmallRun + "--class-weights 1,2,3" + into(folder / "none")).err,
              HasSubstr("--class-weights 1,2,3: expected 2 weights, of \"negative\", \"positive\", got 3"));
}

}  // namespace
}  // namespace adjoin::cli
