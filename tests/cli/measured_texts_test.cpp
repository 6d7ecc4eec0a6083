// Which texts evaluate measures.

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

/// A model of random labels in one file, which it has learned by heart.
class TrainedOnOneFile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    std::string rows = "text,label\n";
    for (int i = 0; i < 60; ++i) rows += "word" + std::to_string(i) + (i * 7 % 11 % 2 == 0 ? ",x\n" : ",y\n");
    put(file(), rows);
    trained_ = run("train --data " + shell_quoted(file()) + kSmallModel + "--epochs 2" + into(model()));
    ASSERT_EQ(trained_.code, 0) << trained_.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static fs::path file() { return *folder_ / "one.csv"; }
  static fs::path model() { return *folder_ / "model"; }
  static std::string held_out() {
    return "every tenth text of each class in " + file().string() + ", which training held out";
  }
  static Outcome evaluate(const std::string& arguments) {
    return run("evaluate --json --model " + shell_quoted(model()) + " " + arguments);
  }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline Outcome trained_{};
};

TEST_F(TrainedOnOneFile, is_evaluated_by_the_part_that_training_held_out) {
  const double loss = json::parse(contents_of(model() / "summary.json")).at("test_loss");
  for (const std::string& arguments :
       {std::string(), "--data " + shell_quoted(file()), "--data " + shell_quoted(folder_->path() / "." / "one.csv")}) {
    const Outcome outcome = evaluate(arguments);
    EXPECT_EQ(outcome.err, "") << arguments;
    const json found = json::parse(outcome.out);
    EXPECT_NEAR(found.at("loss").get<double>(), loss, 1e-9);
    EXPECT_LE(found.at("samples"), 6);
    EXPECT_TRUE(found.at("texts").get<std::string>().starts_with("every tenth text of each class in "));
    EXPECT_TRUE(found.at("texts").get<std::string>().ends_with(", which training held out"));
  }
  const Outcome shown = run("evaluate --model " + shell_quoted(model()));
  EXPECT_EQ(lines_of(shown.out)[1], "of " + held_out());
}

TEST_F(TrainedOnOneFile, is_measured_as_a_whole_with_a_warning_where_it_is_the_test_file) {
  const Outcome outcome = evaluate("--test " + shell_quoted(file()));
  EXPECT_EQ(outcome.err, "adjoin: warning: " + file().string() +
                             ": the model was trained on texts of it, so the result says little about new texts\n");
  EXPECT_EQ(json::parse(outcome.out).at("samples"), 60);
  put(*folder_ / "more.csv", "text,label\nword1,x\nword2,y\n");
  const json more =
      printed_json("evaluate --model " + shell_quoted(model()) + " --data " + shell_quoted(*folder_ / "more.csv"));
  EXPECT_EQ(more.at("samples"), 2);
  EXPECT_EQ(more.at("texts"), "all texts in " + (*folder_ / "more.csv").string());
}

TEST_F(TrainedOnOneFile, that_is_gone_is_named) {
  const fs::path copy = *folder_ / "copy";
  fs::copy(model(), copy, fs::copy_options::recursive);
  const std::string config = contents_of(copy / "config.json");
  const size_t at = config.find("one.csv");
  put(copy / "config.json", config.substr(0, at) + "two.csv" + config.substr(at + 7));
  const Outcome outcome = run("evaluate --model " + shell_quoted(copy));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "adjoin: --data is needed: the texts of " + copy.string() + ", " +
                             (*folder_ / "two.csv").string() + ", are not there\n");
}

TEST_F(TrainedOnOneFile, is_not_divided_where_a_test_file_is_given) {
  put(*folder_ / "test.csv", "text,label\nword1,x\nword2,y\n");
  const fs::path out = *folder_ / "with_test";
  const Outcome trained = run("train --data " + shell_quoted(file()) + " --test " +
                              shell_quoted(*folder_ / "test.csv") + kSmallModel + "--epochs 1" + into(out));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(lines_of(trained.out)[0],
            "60 training and 2 test texts from " + file().string() + " and " + (*folder_ / "test.csv").string());
  const json own = printed_json("evaluate --model " + shell_quoted(out));
  EXPECT_EQ(own.at("samples"), 2);
  EXPECT_NEAR(own.at("loss").get<double>(),
              json::parse(contents_of(out / "summary.json")).at("test_loss").get<double>(), 1e-9);
  EXPECT_THAT(run("evaluate --model " + shell_quoted(out) + " --data " + shell_quoted(file())).err,
              HasSubstr("was trained on texts of it"));
}

TEST(ClassFolders, are_trained_on_and_evaluated) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) {
    const std::string name = i % 2 == 0 ? "red" : "green";
    fs::create_directories(folder / "texts" / name);
    put(folder / "texts" / name / (std::to_string(i) + ".txt"), name + " things\n");
  }
  const Outcome trained =
      run("train --data " + shell_quoted(folder / "texts") + kSmallModel + "--epochs 1" + into(folder / "out"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(lines_of(trained.out)[1], "18 training and 2 test texts from " + (folder / "texts").string());
  EXPECT_EQ(json::parse(contents_of(folder / "out" / "classes.json")), (json{"green", "red"}));
  EXPECT_EQ(printed_json("evaluate --model " + shell_quoted(folder / "out")).at("samples"), 2);
}

}  // namespace
}  // namespace adjoin::cli
