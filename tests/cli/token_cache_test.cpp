#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

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
    EXPECT_NE(outcome.err.find("1 byte was no UTF-8"), std::string::npos) << outcome.err;
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
