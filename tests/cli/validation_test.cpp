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

std::vector<json> validations_of(const fs::path& run) {
  return lines_of_kind(run, "validation");
}

json summary_of(const fs::path& run) {
  return json::parse(contents_of(run / "summary.json"));
}

TEST(Validation, keeps_the_best_model_and_ends_when_it_gets_worse) {
  const TemporaryFolder folder;
  // So large a rate that the loss rises again.
  const std::string train = kSmallRun + "--precision fp64 --validation 0.25 --lr 0.03 --schedule constant --warmup 0 ";
  const Outcome outcome = run(train + "--epochs 40 --patience 3 --dp 2" + into(folder / "run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("validation loss"));
  EXPECT_THAT(outcome.out, HasSubstr("\n36 samples to train on, 12 held out for validation\n"));
  const std::vector<json> validations = validations_of(folder / "run");
  ASSERT_GT(validations.size(), 3u);
  ASSERT_LT(validations.size(), 40u) << "it never got worse, so that nothing is tested";
  size_t best = 0;
  for (size_t i = 0; i < validations.size(); ++i)
    if (validations[i].at("loss") < validations[best].at("loss")) best = i;
  EXPECT_EQ(best + 4, validations.size());
  const json summary = summary_of(folder / "run");
  EXPECT_EQ(summary.at("best_step"), validations[best].at("step"));
  EXPECT_EQ(summary.at("validation_loss"), validations[best].at("loss"));

  // Its model is that of a run which ended there.
  const std::string epochs = " --epochs " + std::to_string(best + 1);
  ASSERT_EQ(run(train + epochs + into(folder / "short")).code, 0);
  EXPECT_NEAR(summary.at("test_loss").get<double>(), summary_of(folder / "short").at("test_loss").get<double>(), 1e-9);
}

TEST(Validation, resumes_with_the_best_model_of_before) {
  const TemporaryFolder folder;
  const std::string train = kSmallRun + "--precision fp64 --validation 0.25 --lr 0.03 --schedule constant --warmup 0 ";
  ASSERT_EQ(run(train + "--epochs 8" + into(folder / "whole")).code, 0);
  ASSERT_EQ(run(train + "--epochs 5" + into(folder / "parts")).code, 0);
  const Outcome resumed = run("train --resume " + shell_quoted(folder / "parts") + " --epochs 8 --tp 2");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const json whole = summary_of(folder / "whole"), parts = summary_of(folder / "parts");
  EXPECT_EQ(parts.at("best_step"), whole.at("best_step"));
  EXPECT_NEAR(parts.at("test_loss").get<double>(), whole.at("test_loss").get<double>(), 1e-9);
  EXPECT_EQ(validations_of(folder / "parts").size(), 8u);
}

TEST(Validation, is_not_repeated_by_a_resumed_run) {
  const TemporaryFolder folder;
  const std::string train = kSmallRun + "--validation 0.25 --lr 0.03 --schedule constant --warmup 0 --patience 50 ";
  ASSERT_EQ(run(train + "--epochs 6" + into(folder / "run")).code, 0);
  const auto since_best = [&] {
    return json::parse(contents_of(checkpoint_of(folder / "run") / "state.json")).at("since_best").get<int64_t>();
  };
  const int64_t before = since_best();
  ASSERT_GT(before, 0) << "the last validation was the best, so that nothing is tested";
  ASSERT_EQ(run("train --resume " + shell_quoted(folder / "run") + " --epochs 7").code, 0);
  EXPECT_LE(since_best(), before + 1);
  EXPECT_EQ(validations_of(folder / "run").size(), 7u);
}

TEST(Validation, that_an_interrupt_left_for_a_resumed_run_is_kept_in_its_checkpoint) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(kSmallRun + "--validation 0.25 --epochs 1" + into(folder / "run")).code, 0);
  const auto checkpoint = checkpoint_of(folder / "run");
  json state = unsealed_state(checkpoint);
  const json after_it = state;
  ASSERT_GT(state.at("best_step"), 0);
  state.update({{"evaluated", 0}, {"best_loss", nullptr}, {"best_step", 0}});  // as before the last validation
  put(checkpoint / "state.json", state.dump());
  for (const auto& made_later :
       {checkpoint / "best.safetensors", folder / "run" / "model.safetensors", folder / "run" / "summary.json"})
    std::filesystem::remove(made_later);
  const Outcome resumed = run("train --resume " + shell_quoted(folder / "run"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(std::filesystem::exists(checkpoint / "best.safetensors"));
  const json found = json::parse(contents_of(checkpoint / "state.json"));
  for (const char* key : {"evaluated", "best_loss", "best_step"}) EXPECT_EQ(found.at(key), after_it.at(key)) << key;
}

TEST(PeakMemory, is_that_of_the_steps_and_not_of_checkpoints) {
  const TemporaryFolder folder;
  std::string vocabulary =
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";  // large, as its whole embedding is what a save gathers
  for (int i = 0; i < 20'000; ++i) vocabulary += "word" + std::to_string(i) + "\n";
  put(folder / "vocab.txt", vocabulary);
  const auto peak = [&](const std::string& name, const std::string& every) {
    const std::string train =
        "train --data sample --samples 8 --preset tiny --layers 1 --hidden 16 --sequence 8 --batch 1 "
        "--optimizer sgd --momentum 0 --steps 3 --tp 2 --threads-per-rank 1 --save wait --vocab ";
    const Outcome outcome =
        run(train + shell_quoted(folder / "vocab.txt") + " --checkpoint-every " + every + into(folder / name));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return summary_of(folder / name).at("ranks").at(0).at("peak_memory_bytes").get<double>();
  };
  EXPECT_NEAR(peak("often", "1") / peak("once", "1000"), 1, 0.02);
}

TEST(Validation, that_ends_the_first_epoch_tells_the_loss_of_what_there_was_of_it) {
  const TemporaryFolder folder;
  const Outcome outcome =
      run(kSmallRun + "--validation 0.25 --eval-every 1 --patience 1 --lr 1 --warmup 0" + into(folder / "run"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  double sum = 0;
  const std::vector<json> steps = lines_of_kind(folder / "run", "step");
  for (const json& step : steps) {
    ASSERT_LT(step.at("epoch").get<double>(), 1) << "the epoch was whole, so that nothing is tested";
    sum += step.at("loss").get<double>();
  }
  EXPECT_NEAR(summary_of(folder / "run").at("train_loss").get<double>(), sum / static_cast<double>(steps.size()), 1e-9);
}

TEST(Validation, is_refused_where_it_makes_no_sense) {
  EXPECT_THAT(run("train --data sample --out x --validation 1").err, HasSubstr("--validation is 1, expected less"));
  EXPECT_THAT(run("train --data sample --out x --patience 2").err, HasSubstr("--patience needs --validation"));
}

}  // namespace
}  // namespace adjoin::cli
