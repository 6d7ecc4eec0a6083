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
using ::testing::Not;

/// A model of random labels in one file, which it has learned by heart.
class TrainedOnOneFile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    put(file(), rows(0, 60));
    trained_ = run("train --data " + shell_quoted(file()) + kSmallModel + "--epochs 2" + into(model()));
    ASSERT_EQ(trained_.code, 0) << trained_.err;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string rows(int first, int last) {
    std::string rows = "text,label\n";
    for (int i = first; i != last; i += first < last ? 1 : -1)
      rows += "word" + std::to_string(i) + (i * 7 % 11 % 2 == 0 ? ",x\n" : ",y\n");
    return rows;
  }
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

TEST_F(TrainedOnOneFile, is_not_said_to_be_held_out_once_it_has_changed) {
  const std::string changes[] = {rows(59, -1), rows(0, 80)};  // in another order, and with more rows
  for (const std::string& change : changes) {
    put(file(), change);
    for (const std::string& arguments : {std::string(), "--data " + shell_quoted(file())}) {
      const Outcome outcome = evaluate(arguments);
      EXPECT_EQ(outcome.err, "adjoin: warning: " + file().string() +
                                 ": has changed since it was trained on, so which of these texts the model has learned "
                                 "is not known\n");
      EXPECT_EQ(json::parse(outcome.out).at("texts"), "every tenth text of each class in " + file().string());
    }
  }
  put(file(), rows(0, 60));
  EXPECT_EQ(evaluate("").err, "");
}

TEST_F(TrainedOnOneFile, is_known_under_another_name) {
  const fs::path copy = *folder_ / "copy.csv";
  put(copy, rows(0, 60));
  const Outcome outcome = evaluate("--data " + shell_quoted(copy));
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(json::parse(outcome.out).at("texts"),
            "every tenth text of each class in " + copy.string() + ", which training held out");
  EXPECT_THAT(evaluate("--test " + shell_quoted(copy)).err,
              HasSubstr("copy.csv: the model was trained on texts of it"));
}

TEST_F(TrainedOnOneFile, is_found_from_any_folder) {
  const fs::path here = fs::current_path(), other = *folder_ / "other";
  fs::create_directory(other);
  put(other / "one.csv", rows(100, 130));
  put(*folder_ / "vocab.txt", contents_of(model() / "vocab.txt"));
  fs::current_path(folder_->path());
  const std::string train = "train --data one.csv --vocab vocab.txt" + kSmallModel + "--epochs 1";
  const Outcome trained = run(train + " --out relative");
  const Outcome again = run(train + " --resume auto --out relative");
  fs::current_path(other);
  const Outcome evaluated = run("evaluate --json --model ../relative"), resumed = run("train --resume ../relative");
  fs::current_path(here);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr(" from one.csv\n"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(evaluated.err, "");
  const std::string texts = json::parse(evaluated.out).at("texts");
  EXPECT_THAT(texts, HasSubstr("/one.csv, which training held out"));
  EXPECT_THAT(texts, Not(HasSubstr("/other/")));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, Not(HasSubstr("warning")));
}

TEST_F(TrainedOnOneFile, cannot_be_known_where_the_run_is_of_an_earlier_version) {
  const fs::path earlier = *folder_ / "earlier";
  fs::copy(model(), earlier, fs::copy_options::recursive);
  fs::remove(earlier / "texts.json");
  EXPECT_EQ(printed_json("evaluate --model " + shell_quoted(earlier)).at("texts"),
            held_out() + " unless they have changed since");
}

TEST_F(TrainedOnOneFile, is_compared_when_the_run_continues) {
  const fs::path resumed = *folder_ / "resumed", file = *folder_ / "two.csv";
  put(file, rows(0, 60));
  ASSERT_EQ(run("train --data " + shell_quoted(file) + kSmallModel + "--epochs 1" + into(resumed)).code, 0);
  put(file, rows(59, -1));
  const std::string resume = "train --resume " + shell_quoted(resumed);
  const std::string warning = "adjoin: warning: --data " + file.string() +
                              ": these are not the texts that the run in " + resumed.string() +
                              " has learned from so far, so it may now learn from some that it held out\n";
  const Outcome other = run(resume + " --epochs 2"), same = run(resume + " --epochs 3");
  EXPECT_EQ(other.code, 0);
  EXPECT_THAT(other.err, HasSubstr(warning));
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.err, Not(HasSubstr("warning")));
  EXPECT_EQ(run("evaluate --model " + shell_quoted(resumed)).err,
            "adjoin: warning: " + file.string() +
                ": the run has also learned from other texts, so which of these texts the model has learned is not "
                "known\n");
}

TEST_F(TrainedOnOneFile, that_is_gone_is_named) {
  const fs::path copy = *folder_ / "copy";
  fs::copy(model(), copy, fs::copy_options::recursive);
  const std::string config = contents_of(copy / "config.json");
  const size_t at = config.find("one.csv");
  put(copy / "config.json", config.substr(0, at) + "three.csv" + config.substr(at + 7));
  const Outcome outcome = run("evaluate --model " + shell_quoted(copy));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "adjoin: --data is needed: the texts of " + copy.string() + ", " +
                             (*folder_ / "three.csv").string() + ", are not there\n");
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
              json::parse(contents_of(out / "summary.json")).at("test_loss").get<double>(), 1e-6);
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
  put(folder / "texts" / "red" / "00.txt", "red things\n");
  const Outcome changed = run("evaluate --json --model " + shell_quoted(folder / "out"));
  EXPECT_THAT(changed.err, HasSubstr("has changed since it was trained on"));
  EXPECT_THAT(changed.out, Not(HasSubstr("held out")));
}

TEST(TrainAndTestFiles, that_have_changed_are_told) {
  const TemporaryFolder folder;
  const fs::path train = folder / "texts" / "train.csv", test = folder / "texts" / "test.csv";
  fs::create_directory(folder / "texts");
  put(train, "text,label\na good film,1\na bad film,0\nvery good,1\nvery bad,0\n");
  put(test, "text,label\ngood,1\nbad,0\n");
  ASSERT_EQ(
      run("train --data " + shell_quoted(folder / "texts") + kSmallModel + "--epochs 1" + into(folder / "out")).code,
      0);
  const std::string evaluate = "evaluate --json --model " + shell_quoted(folder / "out");
  EXPECT_EQ(run(evaluate).err, "");
  put(folder / "copy.csv", contents_of(train));  // of which nothing was held out
  const Outcome copy = run(evaluate + " --data " + shell_quoted(folder / "copy.csv"));
  EXPECT_THAT(copy.err, HasSubstr("copy.csv: the model was trained on texts of it"));
  EXPECT_EQ(json::parse(copy.out).at("texts"), "all texts in " + (folder / "copy.csv").string());
  fs::rename(train, folder / "texts" / "other");
  fs::rename(test, train);
  fs::rename(folder / "texts" / "other", test);
  const Outcome changed = run(evaluate);
  EXPECT_THAT(changed.err, HasSubstr("has changed since it was trained on"));
  EXPECT_EQ(json::parse(changed.out).at("texts"), "the test texts in " + (folder / "texts").string());
}

}  // namespace
}  // namespace adjoin::cli
