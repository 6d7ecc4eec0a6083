#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A run with a hash at every second step and checkpoints of steps 2, 4 and 6, and a copy of it.
class Compare : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(
        run(kSmallRun + "--epochs 1 --checkpoint-every 2 --keep 3 --dp 2 --tp 2 --hash-every 2" + into(first())).code,
        0);
    fs::copy(first(), second(), fs::copy_options::recursive);
  }
  Outcome compare(const fs::path& one, const fs::path& other) const {
    return run("compare " + shell_quoted(one) + " " + shell_quoted(other));
  }
  static std::string hash_of(const fs::path& run) { return run_well("checkpoint --hash " + shell_quoted(run)).out; }
  static fs::path step(const fs::path& run, int step) { return run / "checkpoints" / ("step-" + std::to_string(step)); }
  /// Changes the last byte of a file, which is of the last element of its last tensor.
  static void change(const fs::path& path) {
    std::string content = contents_of(path);
    content.back() ^= 1;
    put(path, content);
  }
  static void end_with(const std::string& bytes, const fs::path& path) {
    std::string content = contents_of(path);
    put(path, content.replace(content.size() - bytes.size(), bytes.size(), bytes));
  }
  fs::path first() const { return folder_ / "first"; }
  fs::path second() const { return folder_ / "second"; }
  TemporaryFolder folder_;
};

TEST_F(Compare, finds_equal_runs_checkpoints_and_files_equal) {
  EXPECT_THAT(run_well("compare " + shell_quoted(first()) + " " + shell_quoted(second())).out,
              StartsWith("equal: 6 steps, 3 checkpoints, "));
  EXPECT_EQ(compare(step(first(), 4), step(second(), 4)).code, 0);
  const std::string file = "model.safetensors";
  EXPECT_EQ(compare(step(first(), 4) / file, step(second(), 4) / file).code, 0);
  EXPECT_EQ(compare(step(first(), 4) / file, step(first(), 2) / file).code, 1);
}

TEST_F(Compare, names_the_first_number_of_metrics_that_differs) {
  std::string metrics = contents_of(metrics_of(second()));
  const auto lines = lines_of_kind(first(), "step");
  const std::string loss = "\"loss\":" + lines[3].at("loss").dump();
  metrics.replace(metrics.find(loss), loss.size(), "\"loss\":0.25");
  put(metrics_of(second()), metrics);
  const Outcome outcome = compare(first(), second());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "step 4: loss is " + lines[3].at("loss").dump() + " and 0.25\n");
  EXPECT_EQ(outcome.err, "adjoin: " + first().string() + " and " + second().string() + " differ\n");
}

TEST_F(Compare, names_the_first_element_that_differs) {
  change(step(second(), 4) / "model.safetensors");
  change(step(second(), 6) / "optimizer.safetensors");
  const Outcome outcome = compare(first(), second());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, AllOf(StartsWith("checkpoint of step 4: model.safetensors positions.weight[31, 15] is "),
                                 HasSubstr("; 1 of its 512 elements differ, and 1 of ")));
  const Outcome as_json =
      run("compare --json " + shell_quoted(step(first(), 6)) + " " + shell_quoted(step(second(), 6)));
  EXPECT_EQ(as_json.code, 1);
  const auto json = nlohmann::json::parse(as_json.out);
  EXPECT_EQ(json.at("equal"), false);
  EXPECT_EQ(json.at("tensor").at("file"), "optimizer.safetensors");
  EXPECT_NE(json.at("tensor").at("first"), json.at("tensor").at("second"));
  EXPECT_TRUE(json.at("number").is_null());
  end_with({1, 0, '\xc0', '\x7f'}, step(first(), 2) / "model.safetensors");
  end_with({2, 0, '\xc0', '\x7f'}, step(second(), 2) / "model.safetensors");
  EXPECT_THAT(compare(step(first(), 2), step(second(), 2)).out,
              HasSubstr("is nan of bits 0x7fc00001 and nan of bits 0x7fc00002"));
}

TEST_F(Compare, looks_at_the_models_of_runs_and_says_what_one_of_them_has_alone) {
  const std::string both = "compare " + shell_quoted(first()) + " " + shell_quoted(second());
  EXPECT_THAT(run_well(both).out, Not(HasSubstr("alone")));
  fs::remove_all(step(second(), 2));
  EXPECT_THAT(run_well(both).out, AllOf(StartsWith("equal: 6 steps, 2 checkpoints, "),
                                        HasSubstr("\n1 of their lines, checkpoints and models are in one run alone")));
  change(second() / "model.safetensors");
  const Outcome outcome = compare(first(), second());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, StartsWith("model.safetensors positions.weight[31, 15] is "));
}

TEST_F(Compare, finds_one_hash_whatever_layout_has_saved_the_same_weights) {
  ASSERT_EQ(run("train --dp 1 --tp 1 --zero 0 --resume " + shell_quoted(first()) + into(folder_ / "other")).code, 0);
  EXPECT_EQ(hash_of(folder_ / "other"), hash_of(first()));
  EXPECT_EQ(compare(checkpoint_of(folder_ / "other"), step(first(), 6)).code, 0);
  const auto lines = lines_of_kind(first(), "step");
  EXPECT_EQ("step 6  " + lines[5].at("hash").get<std::string>() + "\n", hash_of(first()));
  EXPECT_FALSE(lines[4].contains("hash"));
  EXPECT_NE(lines[3].at("hash"), lines[5].at("hash"));
}

TEST_F(Compare, refuses_what_cannot_be_compared) {
  const auto refused = [&](const fs::path& one, const fs::path& other) {
    const Outcome outcome = compare(one, other);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(refused(first(), folder_ / "nowhere"), HasSubstr("there is no such file or folder"));
  EXPECT_THAT(refused(first(), step(first(), 2)),
              HasSubstr("is a run and " + step(first(), 2).string() + " is a checkpoint"));
  EXPECT_THAT(refused(first(), folder_.path()), HasSubstr("is neither the folder of a run nor a checkpoint"));
  EXPECT_THAT(refused(step(first(), 2) / "model.safetensors", step(first(), 2) / "optimizer.safetensors"),
              HasSubstr("are not comparable: "));
  put(folder_ / "text", "no tensors");
  EXPECT_THAT(refused(folder_ / "text", folder_ / "text"), HasSubstr("text"));
  fs::remove_all(second() / "checkpoints");
  put(metrics_of(second()), "");
  EXPECT_THAT(refused(first(), second()), HasSubstr("have no step in common"));
  for (const auto& [run, numbers] : {std::pair(first(), "lanes=1"), std::pair(second(), "lanes=2")}) {
    auto config = nlohmann::json::parse(contents_of(run / "config.json"));
    config["same_bits"] = numbers;
    put(run / "config.json", config.dump());
  }
  EXPECT_THAT(refused(first(), second()), HasSubstr("are not comparable: --same-bits was lanes=1 and lanes=2"));
}

}  // namespace
}  // namespace adjoin::cli
