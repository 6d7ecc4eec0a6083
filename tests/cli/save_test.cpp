#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "adjoin/base/hash.hpp"
#include "tests/cli/program.hpp"
#include "tests/support/file_faults.hpp"
#include "tests/support/scale.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

std::map<int64_t, double> losses_by_step(const fs::path& run) {
  std::map<int64_t, double> losses;
  for (const nlohmann::json& step : lines_of_kind(run, "step")) losses[step.at("step")] = step.at("loss");
  return losses;
}

/// A run whose saves meet faults below its folder.
class Saves : public testing::Test {
 protected:
  Surroundings with(const std::vector<std::string>& faults, int ranks = 0) const {
    std::string environment;
    for (const std::string& variable : with_file_faults(out(), faults)) environment += shell_quoted(variable) + " ";
    return {.environment = environment, .ranks = ranks};
  }
  Surroundings with_held(const fs::path& hold, int ranks = 0) const {
    return with({"HOLD=" + hold.string(), "HELD=.new/optimizer.safetensors"}, ranks);
  }
  std::string train(const std::string& arguments) const { return kSmallRun + arguments + into(out()); }
  fs::path out() const { return folder_ / "run"; }
  fs::path hold_file() const {
    const fs::path file = folder_ / "hold";
    put(file, "");
    return file;
  }
  TemporaryFolder folder_;
};

TEST_F(Saves, on_a_disk_that_does_not_answer_do_not_keep_steps_waiting) {
  const fs::path hold = hold_file();
  Running running(train("--steps 18 --checkpoint-every 10"), with_held(hold));
  wait_until("a save has begun", [&] { return fs::exists(train::fresh_checkpoint(out(), 10)); });
  wait_for_steps(out(), 18);
  EXPECT_FALSE(train::has_checkpoint(out()));
  fs::remove(hold);
  EXPECT_EQ(running.wait().code, 0);
  EXPECT_EQ(train::checkpoints_in(out()).size(), 2u);
}

TEST_F(Saves, wait_for_the_one_before_and_say_so) {
  const fs::path hold = hold_file();
  Running running(train("--steps 4 --checkpoint-every 2"), with_held(hold));
  const std::string said = "still waiting at step 4 for the checkpoint before it";
  wait_until("the run says that it waits", [&] { return running.errors().find(said) != std::string::npos; });
  fs::remove(hold);
  EXPECT_EQ(running.wait().code, 0);
  EXPECT_EQ(train::checkpoints_in(out()).size(), 2u);
  const Outcome waiting = run(train("--steps 4 --checkpoint-every 2 --overwrite --save wait"));
  EXPECT_EQ(waiting.code, 0);
  EXPECT_EQ(waiting.err.find("waiting"), std::string::npos) << waiting.err;
}

TEST_F(Saves, may_take_longer_than_the_deadline) {
  for (const int ranks : {0, 2}) {
    const fs::path hold = hold_file();
    Running running(train("--epochs 1 --dp 2 --overwrite --deadline 3"), with_held(hold, ranks));
    wait_until("a save has begun", [&] { return fs::exists(train::fresh_checkpoint(out(), 6)); });
    std::this_thread::sleep_for(std::chrono::seconds(4));
    fs::remove(hold);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

TEST_F(Saves, on_a_full_disk_end_the_run_before_a_tensor_is_written) {
  ASSERT_EQ(run(train("--epochs 1 --dp 2")).code, 0);
  const auto before = tree_of(out() / "checkpoints");
  for (const int ranks : {0, 2})
    for (const std::string save : {"background", "wait"}) {
      const fs::path log = folder_ / "log";
      fs::remove(log);
      const Outcome outcome =
          run("train --epochs 3 --checkpoint-every 4 --save " + save + " --resume " + shell_quoted(out()),
              with({"ROOM=10000", "LOG=" + log.string()}, ranks));
      EXPECT_THAT(outcome.err, HasSubstr("model.safetensors: cannot be written: No space left on device"));
      if (ranks == 0) {
        EXPECT_EQ(outcome.code, 2);
      }
      EXPECT_EQ(tree_of(out() / "checkpoints"), before);
      // To the tensors' file: its length and its room.
      int writes = 0;
      for (const std::string& line : lines_of(contents_of(log)))
        writes += line.starts_with("write\t") && line.ends_with("model.safetensors");
      EXPECT_EQ(writes, 2);
    }
}

TEST_F(Saves, that_are_killed_under_mpirun_cost_no_more_than_the_one_that_is_not_finished) {
  const int64_t kills = 3 * test::scale();
  const std::string options = "--dp 2 --steps 12 --checkpoint-every 2 --precision fp64 --deterministic ";
  ASSERT_EQ(run(kSmallRun + options + into(folder_ / "straight"), {.ranks = 2}).code, 0);
  for (int64_t i = 0; i < kills; ++i) {
    // Of some 700 operations on files the job has; the later ones are of its end.
    const int at = 10 + static_cast<int>(mix(static_cast<uint64_t>(i) + 1) % 600);
    SCOPED_TRACE("killed before operation " + std::to_string(at));
    fs::remove_all(out());
    const Outcome killed = run(train(options), with({"KILL=" + std::to_string(at)}, 2));
    if (killed.code == 0) continue;
    const int64_t step = fs::exists(metrics_of(out())) ? std::ssize(losses_by_step(out())) : 0;
    const auto checkpoints = train::checkpoints_in(out());
    const int64_t newest = checkpoints.empty() ? 0 : checkpoints.front().step;
    EXPECT_GE(newest, (step - 1) / 2 * 2 - 2);
    if (newest > 0) {
      EXPECT_EQ(run("checkpoint --verify " + shell_quoted(out())).code, 0);
    }
    const Outcome resumed = run(train(options + "--resume auto "), {.ranks = 2});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(losses_by_step(out()), losses_by_step(folder_ / "straight"));
    EXPECT_EQ(contents_of(out() / "model.safetensors"), contents_of(folder_ / "straight" / "model.safetensors"));
  }
}

TEST_F(Saves, are_of_any_layout_and_go_on_in_any) {
  const struct {
    std::string options;
    int ranks;  // of an MPI job
  } layouts[] = {{"--tp 2", 2}, {"--cp 2", 0},          {"--pp 2 --microbatches 2", 0},
                 {"--dp 2", 0}, {"--dp 2 --zero 3", 0}, {"--dp 2 --tp 2", 0}};
  const std::string options = "--precision fp64 --deterministic --steps 40 ";
  for (size_t saved = 0; saved < std::size(layouts); ++saved) {
    const fs::path from = folder_ / std::to_string(saved);
    ASSERT_EQ(run(kSmallRun + options + "--checkpoint-every 20 " + layouts[saved].options + into(from),
                  {.ranks = layouts[saved].ranks})
                  .code,
              0);
    for (size_t next = 0; next < (test::scale() == 1 ? 3 : std::size(layouts)); ++next) {
      const size_t loaded = (saved + next) % std::size(layouts);
      const fs::path to = folder_ / (std::to_string(saved) + "-" + std::to_string(loaded));
      const std::string missing = [&] {  // what this layout does not say
        std::string text;
        for (const std::string option : {"--dp", "--tp", "--cp", "--pp", "--microbatches", "--zero"})
          if (layouts[loaded].options.find(option) == std::string::npos) text += option + " 1 ";
        return text;
      }();
      const Outcome outcome =
          run("train --step 20 --resume " + shell_quoted(from) + " " + missing + layouts[loaded].options + into(to),
              {.ranks = layouts[loaded].ranks});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const auto expected = losses_by_step(from), found = losses_by_step(to);
      ASSERT_EQ(found.size(), expected.size());
      for (const auto& [step, loss] : expected)
        EXPECT_NEAR(found.at(step), loss, saved == loaded ? 0 : 1e-9)
            << layouts[saved].options << " as " << layouts[loaded].options << ", step " << step;
      if (saved != loaded) continue;
      EXPECT_EQ(contents_of(to / "model.safetensors"), contents_of(from / "model.safetensors"));
    }
  }
}

TEST_F(Saves, of_four_ranks_go_on_with_as_many_as_there_are_at_the_very_sample) {
  const std::string options = "--precision fp64 --deterministic --steps 12 --checkpoint-every 5 ";
  ASSERT_EQ(run(train(options + "--dp 0 "), {.ranks = 4}).code, 0);
  const auto expected = losses_by_step(out());
  const fs::path left = folder_ / "left";
  fs::copy(out(), left, fs::copy_options::recursive);
  fs::remove_all(train::checkpoints_in(left).front().path);  // of the end, which lies after a kill
  ASSERT_EQ(train::checkpoints_in(left).front().step, 10);
  const Outcome resumed = run(kSmallRun + options + "--resume auto --dp 0" + into(left), {.ranks = 3});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("3 ranks: dp 3, tp 1, MPI processes"));
  const auto found = losses_by_step(left);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, loss] : expected) EXPECT_NEAR(found.at(step), loss, 1e-9) << step;
  EXPECT_THAT(run(train("--dp 0 --tp 2 --overwrite"), {.ranks = 3}).err,
              HasSubstr("--dp 0: 3 ranks of the MPI job are not a multiple of --pp 1 times --cp 1 times --tp 2"));
}

TEST_F(Saves, are_refused_where_ranks_see_different_folders) {
  const fs::path other = folder_ / "other";
  const std::string second = " : -n 1 '" ADJOIN_PROGRAM "' " + kSmallRun + "--dp 2 --epochs 1" + into(other);
  const Outcome outcome = run(train("--dp 2 --epochs 1") + second, {.ranks = 1});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("sees a different folder there than rank 0"));
  EXPECT_FALSE(fs::exists(metrics_of(out())) && !contents_of(metrics_of(out())).empty());
}

}  // namespace
}  // namespace adjoin::cli
