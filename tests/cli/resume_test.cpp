#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/allclose.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "adjoin/store/safetensors.hpp"
#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr size_t kSteps = 480;  // 80 epochs of 48 samples in batches of 8: time enough to interrupt them
const std::string kRun = kSmallRun + "--precision fp64 --epochs 80 --eval-every 100 ";
const std::string kSeldomSaved = "--checkpoint-every 200 ";

std::vector<int64_t> evaluated_steps_of(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const json& evaluation : lines_of_kind(run, "evaluation")) steps.push_back(evaluation.at("step"));
  return steps;
}

void expect_same_loss(double a, double b, double tolerance) {
  EXPECT_LE(std::abs(a - b), tolerance * std::abs(b)) << a << " and " << b;
}

void expect_same_model(const fs::path& a, const fs::path& b, double tolerance) {
  const train::SafetensorsFile first(a / "model.safetensors"), second(b / "model.safetensors");
  ASSERT_EQ(first.shapes(), second.shapes());
  for (const auto& [name, shape] : first.shapes())
    EXPECT_TRUE(at::allclose(first.read(name), second.read(name), tolerance, tolerance)) << name;
}

/// One run to the end, and one that the user interrupted.
class Resume : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    ASSERT_EQ(run(kRun + kSeldomSaved + into(straight())).code, 0);
    Running running(kRun + kSeldomSaved + into(interrupted()));
    wait_for_steps(interrupted(), 20);
    running.signal(SIGINT);
    outcome_ = new Outcome(running.wait());
  }
  static void TearDownTestSuite() {
    delete outcome_;
    delete folder_;
  }

  static fs::path straight() { return *folder_ / "straight"; }
  static fs::path interrupted() { return *folder_ / "interrupted"; }
  static fs::path copy_of_interrupted(const std::string& name) {
    fs::copy(interrupted(), *folder_ / name, fs::copy_options::recursive);
    return *folder_ / name;
  }
  static std::string resume(const fs::path& run) { return "train --resume " + shell_quoted(run) + " "; }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline Outcome* outcome_ = nullptr;
};

TEST_F(Resume, is_what_an_interrupted_run_advises) {
  EXPECT_EQ(outcome_->code, 130);
  EXPECT_THAT("\n" + outcome_->err, HasSubstr("\nadjoin: interrupted; continue with: adjoin train --resume " +
                                              interrupted().string() + "\n"));
  const size_t taken = losses_of(interrupted()).size();
  EXPECT_GE(taken, 20u);
  EXPECT_LT(taken, kSteps);
  EXPECT_FALSE(fs::exists(interrupted() / "summary.json"));
}

TEST_F(Resume, gives_the_identical_losses_and_model) {
  const fs::path resumed = copy_of_interrupted("same");
  const Outcome outcome = run(resume(resumed));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(losses_of(straight()).size(), kSteps);
  EXPECT_EQ(losses_of(resumed), losses_of(straight()));
  EXPECT_EQ(evaluated_steps_of(resumed), (std::vector<int64_t>{100, 200, 300, 400, kSteps}));
  EXPECT_EQ(lines_of_kind(resumed, "evaluation"), lines_of_kind(straight(), "evaluation"));
  EXPECT_EQ(contents_of(resumed / "model.safetensors"), contents_of(straight() / "model.safetensors"));
  const json a = json::parse(contents_of(resumed / "summary.json")),
             b = json::parse(contents_of(straight() / "summary.json"));
  for (const char* key : {"train_loss", "test_loss", "test_accuracy"}) EXPECT_EQ(a.at(key), b.at(key)) << key;
}

TEST_F(Resume, in_another_layout_and_folder_gives_the_same_losses_and_model) {
  const auto before = tree_of(interrupted());
  const fs::path resumed = *folder_ / "tp2";
  const Outcome outcome = run(resume(interrupted()) + "--tp 2" + into(resumed));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<double> losses = losses_of(resumed), expected = losses_of(straight());
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) expect_same_loss(losses[i], expected[i], 1e-9);
  expect_same_model(resumed, straight(), 1e-9);
  EXPECT_EQ(tree_of(interrupted()), before);  // the run that it goes on from
}

TEST_F(Resume, of_a_finished_run_changes_neither_model_nor_metrics) {
  const fs::path finished = *folder_ / "finished";
  fs::copy(straight(), finished, fs::copy_options::recursive);
  const Outcome outcome = run(resume(finished));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* name : {"model.safetensors", "metrics.jsonl", "vocab.txt"})
    EXPECT_EQ(contents_of(finished / name), contents_of(straight() / name)) << name;
  const json a = json::parse(contents_of(finished / "summary.json")),
             b = json::parse(contents_of(straight() / "summary.json"));
  for (const char* key : {"train_loss", "test_loss", "test_accuracy", "train_seconds"})
    EXPECT_EQ(a.at(key), b.at(key)) << key;
}

TEST_F(Resume, of_a_finished_run_refuses_what_it_would_never_learn_from) {
  const fs::path finished = *folder_ / "over";
  fs::copy(straight(), finished, fs::copy_options::recursive);
  const auto before = tree_of(finished);
  for (const std::string option : {"--seed 7", "--lr 0.5", "--no-bucket"}) {
    const Outcome outcome = run(resume(finished) + option);
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr("the run is over, so --"));
    EXPECT_THAT(outcome.err, ::testing::StartsWith("adjoin: --resume "));  // no rank, as all of them find it
    EXPECT_THAT(outcome.err, HasSubstr("would change nothing; more --epochs would continue the training"));
  }
  EXPECT_EQ(tree_of(finished), before);
}

TEST_F(Resume, counts_a_skipped_step_as_no_update) {
  const fs::path skipped = copy_of_interrupted("skipped");
  json state = unsealed_state(checkpoint_of(skipped));
  state["skipped"]["all"] = state.at("step").get<int64_t>() / 2;  // so that AdamW has made as many updates less
  put(checkpoint_of(skipped) / "state.json", state.dump());
  ASSERT_EQ(run(resume(skipped)).code, 0);
  EXPECT_NE(losses_of(skipped).back(), losses_of(straight()).back());
}

TEST_F(Resume, follows_a_crash) {
  const fs::path crashed = *folder_ / "crashed";
  Running running(kRun + "--checkpoint-every 2" + into(crashed));
  wait_for_steps(crashed, 25);
  running.signal(SIGKILL);
  EXPECT_EQ(running.wait().code, 128 + SIGKILL);
  ASSERT_LT(losses_of(crashed).size(), kSteps);
  const Outcome evaluated = run("evaluate --data sample --samples 8 --model " + shell_quoted(crashed));
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  const Outcome outcome = run(resume(crashed) + "--checkpoint-every 200");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(losses_of(crashed), losses_of(straight()));
  EXPECT_EQ(contents_of(crashed / "model.safetensors"), contents_of(straight() / "model.safetensors"));
}

TEST_F(Resume, refuses_what_a_run_keeps) {
  const fs::path kept = copy_of_interrupted("kept");
  const auto before = tree_of(kept);
  const std::pair<std::string, std::string> cases[] = {
      {"--hidden 32", "--hidden 32: a resumed run keeps its own, and that of " + kept.string() + " is 16"},
      {"--optimizer sgd", "--optimizer sgd: a resumed run keeps its own, and that of " + kept.string() + " is adamw"},
      {"--preset small", "--preset small: a resumed run keeps its own"},
      {"--vocab other.txt",
       "--vocab other.txt: a resumed run keeps its own, and that of " + kept.string() + " is none"},
      {"--samples 32", "the run has 48 training samples, but --data, --samples and --validation now give 32"},
      {"--batch 16", "the run's batch is 8, but --batch is 16"},
      {"--tp 3 --dp -1", "--dp is -1"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome = run(resume(kept) + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(expected));
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  }
  EXPECT_EQ(tree_of(kept), before);
}

TEST_F(Resume, within_an_epoch_needs_the_order_that_the_epoch_began_with) {
  const fs::path within = *folder_ / "within";
  fs::copy(straight(), within, fs::copy_options::recursive);
  json state = unsealed_state(checkpoint_of(within));
  state["step"] = kSteps + 2;
  state["step_of_epoch"] = 2;
  put(checkpoint_of(within) / "state.json", state.dump());
  const Outcome refused = run(resume(within) + "--epochs 81 --seed 7");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("stopped within an epoch, and --data, --seed or --bucket now change the order of its samples"));
  const Outcome resumed = run(resume(within) + "--epochs 81");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST_F(Resume, auto_is_said_by_a_command_that_is_repeated) {
  const std::string command = kRun + kSeldomSaved + "--resume auto" + into(*folder_ / "repeated");
  Running first(command);
  wait_for_steps(*folder_ / "repeated", 20);
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().code, 128 + SIGTERM);
  ASSERT_LT(losses_of(*folder_ / "repeated").size(), kSteps);
  for (int finished = 0; finished < 2; ++finished) {
    const Outcome outcome = run(command);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(losses_of(*folder_ / "repeated"), losses_of(straight()));
    EXPECT_EQ(contents_of(*folder_ / "repeated" / "model.safetensors"), contents_of(straight() / "model.safetensors"));
  }
}

TEST_F(Resume, of_a_run_that_goes_on_reads_one_of_its_checkpoints_as_a_whole) {
  const fs::path live = *folder_ / "live";
  Running running(kSmallRun + "--precision fp64 --epochs 10000 --checkpoint-every 1" + into(live));
  wait_for_steps(live, 3);
  for (int i = 0; i < 6; ++i) {
    const Surroundings threads_or_mpi{.ranks = i % 3 == 2 ? 2 : 0};
    const Outcome outcome =
        run(resume(live) + "--epochs 1 --tp 2 --overwrite" + into(*folder_ / "off"), threads_or_mpi);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(run("predict fine --model " + shell_quoted(live)).code, 0);
  }
}

TEST_F(Resume, needs_a_checkpoint) {
  const std::pair<fs::path, std::string> cases[] = {{*folder_ / "nothing", "there is no such folder"},
                                                    {folder_->path(), "there is no checkpoint to continue from"}};
  for (const auto& [nothing, said] : cases) {
    const Outcome outcome = run(resume(nothing));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "adjoin: --resume " + nothing.string() + ": " + said + "\n");
  }
}

TEST_F(Resume, of_split_rows_on_one_tensor_parallel_rank_needs_no_more_options) {
  const TemporaryFolder folder;
  const Outcome first = run(kSmallRun + "--epochs 1 --tp 2 --sp" + into(folder / "run"));
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome second = run("train --epochs 2 --tp 1 --resume " + shell_quoted(folder / "run"));
  EXPECT_EQ(second.code, 0) << second.err;
}

}  // namespace
}  // namespace adjoin::cli
