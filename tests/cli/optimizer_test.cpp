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

// The first update makes weights so large that all later gradients overflow.
const std::string kDiverging = kSmallRun + "--epochs 5 --lr 1000 --weight-decay 1000 --lr-end 1 --warmup 0 ";

TEST(SkippedSteps, end_a_run_after_ten_in_a_row_with_one_clear_line) {
  const TemporaryFolder folder;
  for (const int ranks : {0, 2}) {
    const fs::path out = folder / std::to_string(ranks);
    const Outcome outcome = run(kDiverging + "--dp 2 --checkpoint-every 1000" + into(out), {.ranks = ranks});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("steps in a row were not finite; a lower --lr may help\n"));
    int64_t skipped = 0;
    for (const std::string& line : lines_of(contents_of(metrics_of(out))))
      skipped += json::parse(line).at("skipped").get<bool>();
    EXPECT_EQ(skipped, 9);  // the tenth ends the run
    EXPECT_FALSE(fs::exists(out / "model.safetensors"));
  }
}

/// The losses of all steps, and what the last checkpoint says of the steps so far but for seconds.
std::pair<std::vector<double>, json> outcome_of(const fs::path& run) {
  std::vector<double> losses;
  for (const json& step : lines_of_kind(run, "step")) losses.push_back(step.at("loss"));
  json state = unsealed_state(checkpoint_of(run));
  for (const char* key : {"train_seconds", "checkpoint"}) state.erase(key);
  return {losses, state};
}

TEST(ResumedOptimizer, with_fp16_sgd_or_muon_gives_the_identical_losses_and_state) {
  const TemporaryFolder folder;
  for (const std::string options :
       {"--precision fp16 ", "--precision fp64 --optimizer sgd --lr 0.1 ", "--optimizer muon "}) {
    const std::string command = kSmallRun + options + "--schedule constant --warmup 0 ";
    const fs::path straight = folder / ("straight" + options), parts = folder / ("parts" + options);
    ASSERT_EQ(run(command + "--epochs 2" + into(straight)).code, 0);
    ASSERT_EQ(run(command + "--epochs 1" + into(parts)).code, 0);
    const Outcome resumed = run("train --epochs 2 --resume " + shell_quoted(parts));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(outcome_of(parts), outcome_of(straight)) << options;
    EXPECT_EQ(contents_of(parts / "model.safetensors"), contents_of(straight / "model.safetensors")) << options;
  }
  const json state = outcome_of(folder / "straight--precision fp16 ").second;
  EXPECT_EQ(state.at("loss_scale").at("good_steps").get<int64_t>() + state.at("skipped").at("all").get<int64_t>(), 12);
}

}  // namespace
}  // namespace adjoin::cli
