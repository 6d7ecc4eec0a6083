#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/file_faults.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;

/// Trainings on one data set, whose tokens they keep in a cache of this test's own.
class KeptTokens : public testing::Test {
 protected:
  KeptTokens() {
    put(data_ / "train.csv", "text,label\na good film,1\na bad film\xff,0\nvery good,1\nvery bad,0\n");
    put(data_ / "test.csv", "text,label\na film,1\nbad,0\n");
  }

  /// The line that says where tokens are, and the losses.
  struct Run {
    std::string line, metrics;
  };

  Run train(const std::string& arguments = "", int ranks = 0) {
    const fs::path out = folder_ / std::to_string(++runs_);
    const Outcome outcome = run("train --deterministic --data " + shell_quoted(data_.path()) + kSmallModel +
                                    "--epochs 1 " + arguments + into(out),
                                {.environment = "XDG_CACHE_HOME=" + shell_quoted(cache_), .ranks = ranks});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("1 byte was not UTF-8"), std::string::npos) << outcome.err;
    Run result;
    for (const std::string& line : lines_of(outcome.out))
      if (line.starts_with("tokens ")) result.line += line;
    for (const std::string& line : lines_of(contents_of(metrics_of(out))))
      result.metrics += nlohmann::json::parse(line).at("loss").dump() + " ";
    return result;
  }

  std::string kept() const { return "tokens kept in " + (cache_ / "adjoin").string() + " for the next start"; }
  std::string mapped() const {
    return "tokens mapped from " + (cache_ / "adjoin").string() + ", where an earlier start kept them";
  }

  TemporaryFolder data_, folder_;
  fs::path cache_ = folder_ / "cache";
  int runs_ = 0;
};

TEST_F(KeptTokens, serves_a_second_start_with_the_same_tokens) {
  const Run first = train(), second = train();
  EXPECT_EQ(first.line, kept());
  EXPECT_EQ(second.line, mapped());
  EXPECT_EQ(second.metrics, first.metrics);
  const auto before = tree_of(cache_);
  EXPECT_EQ(train("--samples 3").line, kept());
  EXPECT_EQ(train("--label-column label").line, kept());
  EXPECT_EQ(train().line, mapped());
  EXPECT_GT(tree_of(cache_).size(), before.size());
}

TEST_F(KeptTokens, is_not_used_for_data_that_have_changed) {
  train();
  put(data_ / "train.csv", "text,label\na good film,1\na bad film\xff,0\nvery good,0\nvery bad,0\n");
  EXPECT_EQ(train().line, kept());
}

TEST_F(KeptTokens, that_is_damaged_is_written_anew) {
  const Run first = train();
  for (const auto& entry : fs::directory_iterator(cache_ / "adjoin"))
    put(entry.path(), contents_of(entry.path()).substr(0, 100));
  const Run again = train();
  EXPECT_EQ(again.line, kept());
  EXPECT_EQ(again.metrics, first.metrics);
  EXPECT_EQ(train().line, mapped());
}

TEST_F(KeptTokens, of_documents_that_are_damaged_are_written_anew) {
  const fs::path text = data_ / "text.txt";
  std::string paragraphs;
  for (int i = 0; i < 40; ++i) paragraphs += "A paragraph of some words, and number " + std::to_string(i) + ".\n\n";
  put(text, paragraphs);
  const auto start = [&](int ranks = 0) {
    const Outcome outcome = run("train --dry-run --model decoder --preset gpt-tiny --vocab bytes --sequence 32 --dp " +
                                    std::to_string(std::max(ranks, 1)) + " --data " + shell_quoted(text),
                                {.environment = "XDG_CACHE_HOME=" + shell_quoted(cache_), .ranks = ranks});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const std::string& line : lines_of(outcome.out))
      if (line.starts_with("tokens ")) return line;
    return std::string("none");
  };
  EXPECT_EQ(start(), kept());
  const fs::path folder = fs::directory_iterator(cache_ / "adjoin")->path();
  for (const std::string name : {"vocab.model", "train.tokens", "test.tokens"}) {
    fs::remove(folder / name);
    EXPECT_EQ(start(), kept()) << name;
    EXPECT_EQ(start(), mapped()) << name;
    put(folder / name, contents_of(folder / name).substr(0, 10));
    start(/*ranks=*/2);  // of which one may map what the other has written
    EXPECT_EQ(start(), mapped()) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(cache_ / "adjoin"), {}), 1) << "something damaged was left";
}

TEST_F(KeptTokens, are_on_the_disk_before_they_have_their_name) {
  const fs::path log = folder_ / "log";
  std::string environment = "XDG_CACHE_HOME=" + shell_quoted(cache_) + " ";
  for (const std::string& variable : with_file_faults(cache_, {"LOG=" + log.string()}))
    environment += shell_quoted(variable) + " ";
  ASSERT_EQ(
      run("train --dry-run --data " + shell_quoted(data_.path()) + kSmallModel, {.environment = environment}).code, 0);
  const FileOrder order(contents_of(log));
  EXPECT_EQ(order.counts.at("rename"), 2);  // a file of each part
  EXPECT_THAT(order.violations, ::testing::IsEmpty());
}

TEST_F(KeptTokens, that_cannot_be_written_is_done_without) {
  put(cache_, "a file");
  const Run run = train();
  EXPECT_TRUE(run.line.starts_with("tokens not kept: " + (cache_ / "adjoin").string())) << run.line;
}

TEST_F(KeptTokens, is_shared_by_the_ranks_of_a_job_that_start_at_once) {
  const Run first = train("--dp 2", 2);
  for (const auto& [name, contents] : tree_of(cache_))
    EXPECT_TRUE(name == "adjoin" || name.ends_with(".tokens")) << name;
  const Run second = train("--dp 2", 2);
  EXPECT_EQ(second.line, mapped());
  EXPECT_EQ(second.metrics, first.metrics);
}

}  // namespace
}  // namespace adjoin::cli
