#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A run with checkpoints of steps 2, 4 and 6.
class CheckpointCommand : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run(kSmallRun + "--epochs 1 --checkpoint-every 2 --keep 3 --dp 2 --tp 2" + into(out())).code, 0);
  }
  void damage(int step, const std::string& file) const {
    const fs::path path = out() / "checkpoints" / ("step-" + std::to_string(step)) / file;
    std::string content = contents_of(path);
    content[content.size() - 1] ^= 1;
    put(path, content);
  }
  std::string list(const std::string& options = "") const {
    return "checkpoint " + shell_quoted(out()) + " " + options;
  }
  fs::path out() const { return folder_ / "run"; }
  TemporaryFolder folder_;
};

TEST_F(CheckpointCommand, tells_step_bytes_and_layout_of_each) {
  const auto json = printed_json(list("--verify"));
  ASSERT_EQ(json.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(json[i].at("step"), 6 - 2 * i);
    EXPECT_EQ(json[i].at("layout"), "dp 2, tp 2");
    EXPECT_TRUE(json[i].at("damage").is_null());
    int64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(json[i].at("folder").get<std::string>()))
      bytes += static_cast<int64_t>(file.file_size());
    EXPECT_EQ(json[i].at("bytes"), bytes);
  }
  EXPECT_THAT(run_well(list()).out, AllOf(HasSubstr("step"), HasSubstr("   6"), HasSubstr("dp 2, tp 2")));
}

TEST_F(CheckpointCommand, finds_damage_where_it_verifies_and_names_file_and_tensor) {
  damage(4, "optimizer.safetensors");
  EXPECT_EQ(run(list()).code, 0);
  const Outcome outcome = run(list("--verify"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("step-4/optimizer.safetensors: tensor 'second.positions.weight' is damaged"));
  EXPECT_THAT(outcome.out, HasSubstr("damaged"));
  fs::remove(out() / "checkpoints/step-6/model.safetensors");
  EXPECT_EQ(run(list()).code, 2);
}

TEST_F(CheckpointCommand, lists_those_there_where_a_step_is_missing) {
  const std::string expected = "--step 5: " + out().string() + " has no such checkpoint; it has 6, 4, 2";
  const std::string model = " --step 5 --model " + shell_quoted(out());
  for (const std::string& command : {"predict fine" + model, "evaluate --data sample --samples 8" + model,
                                     "train --step 5 --resume " + shell_quoted(out())}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(expected)) << command;
  }
  EXPECT_EQ(run("train --step 5 --data sample" + into(folder_ / "new")).code, 2);
  EXPECT_THAT(run("checkpoint " + shell_quoted(folder_.path())).err, HasSubstr("there is no checkpoint"));
}

TEST_F(CheckpointCommand, is_what_models_of_a_step_come_from) {
  const auto evaluated = [&](const std::string& step) {
    return printed_json("evaluate --data sample --samples 8 --threads-per-rank 1 --model " + shell_quoted(out()) + step)
        .at("loss")
        .get<double>();
  };
  EXPECT_EQ(evaluated(" --step 6"), evaluated(""));
  EXPECT_NE(evaluated(" --step 2"), evaluated(""));
  damage(2, "model.safetensors");
  EXPECT_EQ(run("evaluate --data sample --samples 8 --step 2 --model " + shell_quoted(out())).code, 2);
}

TEST_F(CheckpointCommand, of_which_a_damaged_one_is_passed_over_by_a_resumed_run) {
  damage(6, "optimizer.safetensors");
  const std::string resume = "train --keep 9 --resume " + shell_quoted(out());
  const Outcome outcome = run(resume + " --epochs 2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("adjoin: warning: " + out().string() +
                                     "/checkpoints/step-6/optimizer.safetensors: tensor 'second.positions.weight' is "
                                     "damaged: its numbers do not match its checksum; " +
                                     out().string() + "/checkpoints/step-4 is read instead\n"));
  for (const int step : {2, 4, 6, 8, 10, 12}) damage(step, "model.safetensors");
  const Outcome none = run(resume + " --epochs 3");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no other checkpoint is whole"));
}

TEST_F(CheckpointCommand, of_which_one_with_another_small_file_is_damaged_for_all) {
  const fs::path six = out() / "checkpoints" / "step-6";
  const auto whole = tree_of(six);
  const auto restore = [&] {
    for (const auto& [name, content] : whole) put(six / name, content);
  };
  const auto changed = [](std::string text) {
    text[text.size() / 2] ^= 1;
    return text;
  };
  for (const std::string name : {"config.json", "vocab.txt", "classes.json", "state.json"})
    for (const bool is_removed : {false, true}) {
      SCOPED_TRACE(name + (is_removed ? " is removed" : " is changed"));
      if (is_removed)
        fs::remove(six / name);
      else
        put(six / name, changed(contents_of(six / name)));
      const Outcome listed = run("checkpoint " + shell_quoted(out()));
      EXPECT_EQ(listed.code, 2);
      EXPECT_THAT(listed.err, HasSubstr("step-6/" + name));
      const Outcome resumed =
          run("train --steps 7 --resume " + shell_quoted(out()) + into(folder_ / "on") + " --overwrite");
      EXPECT_EQ(resumed.code, 0) << resumed.err;
      EXPECT_THAT(resumed.err, HasSubstr("step-4 is read instead"));
      EXPECT_THAT(resumed.out, HasSubstr("begins after step 4\n"));
      restore();
    }
  for (const auto& [name, content] : tree_of(out() / "checkpoints" / "step-4")) put(six / name, content);
  EXPECT_THAT(run("checkpoint " + shell_quoted(out())).err,
              HasSubstr("has a different step than the name of its folder"));
}

TEST_F(CheckpointCommand, leaves_out_what_is_no_checkpoint) {
  put(out() / "checkpoints" / "step-60", "a file");
  fs::create_directory(out() / "checkpoints" / "step-007");
  EXPECT_EQ(printed_json("checkpoint " + shell_quoted(out())).size(), 3u);
  EXPECT_THAT(run("checkpoint " + shell_quoted(checkpoint_of(out()))).err,
              HasSubstr("this is a checkpoint; expected the folder of its run"));
}

TEST_F(CheckpointCommand, is_also_of_a_finished_run_that_was_resumed_into_another_folder) {
  ASSERT_EQ(run("train --resume " + shell_quoted(out()) + into(folder_ / "other")).code, 0);
  EXPECT_EQ(printed_json("checkpoint " + shell_quoted(folder_ / "other")).at(0).at("step"), 6);
}

}  // namespace
}  // namespace adjoin::cli
