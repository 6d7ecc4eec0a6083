#include "adjoin/train/metrics.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::contents_of;
using test::TemporaryFolder;

std::vector<int64_t> steps_in(const std::filesystem::path& path) {
  std::istringstream lines(contents_of(path));
  std::vector<int64_t> steps;
  for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
  return steps;
}

TEST(Metrics, are_one_json_object_a_line_with_the_documented_keys) {
  const TemporaryFolder folder;
  MetricsFile file(folder / "metrics.jsonl");
  file.add(StepMetrics{.step = 1,
                       .epoch = 0.5,
                       .loss = 0.25,
                       .measures = {{"accuracy", 0.75}},
                       .learning_rate = 1e-3,
                       .gradient_norm = 0.5,
                       .tokens_per_second = 1000,
                       .step_seconds = 0.125,
                       .times = StepTimes{.waiting_seconds = 0.25, .communicating_seconds = 0.5, .slowest_rank = 3},
                       .flops_per_second = 2e9});
  file.add(StepMetrics{.step = 2, .loss = std::nan(""), .skipped = true, .loss_scale = 65536});
  file.add(EvaluationMetrics{.step = 1, .loss = 0.5, .measures = {{"accuracy", 1}}});
  EXPECT_EQ(
      contents_of(folder / "metrics.jsonl"),
      R"({"kind":"step","step":1,"epoch":0.5,"loss":0.25,"accuracy":0.75,"learning_rate":0.001,"gradient_norm":0.5,)"
      R"("tokens_per_second":1000.0,"step_seconds":0.125,"waiting_seconds":0.25,"communicating_seconds":0.5,"slowest_rank":3,)"
      R"("skipped":false,"flops_per_second":2000000000.0})"
      "\n"
      R"({"kind":"step","step":2,"epoch":0.0,"loss":null,"learning_rate":0.0,)"
      R"("tokens_per_second":0.0,"step_seconds":0.0,"skipped":true,"loss_scale":65536.0})"
      "\n"
      R"({"kind":"evaluation","step":1,"loss":0.5,"accuracy":1.0})"
      "\n");
}

TEST(Metrics, give_back_every_bit_of_the_loss) {
  const TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::vector<double> losses;
  {
    MetricsFile file(folder / "metrics.jsonl");
    while (losses.size() < 2000) {
      const double loss = std::bit_cast<double>(random());
      if (!std::isfinite(loss)) continue;
      losses.push_back(loss);
      file.add(EvaluationMetrics{.step = std::ssize(losses), .loss = loss});
    }
  }
  std::istringstream lines(contents_of(folder / "metrics.jsonl"));
  for (const double loss : losses) {
    std::string line;
    std::getline(lines, line);
    ASSERT_EQ(nlohmann::json::parse(line).at("loss").get<double>(), loss) << line;
  }
}

TEST(Metrics, of_a_loss_that_is_no_number_are_still_json) {
  const TemporaryFolder folder;
  MetricsFile(folder / "m").add(EvaluationMetrics{.step = 1, .loss = std::nan("")});
  EXPECT_TRUE(nlohmann::json::parse(contents_of(folder / "m")).at("loss").is_null());
}

TEST(Metrics, of_a_resumed_run_continue_after_the_step_that_was_saved) {
  const TemporaryFolder folder;
  {
    MetricsFile file(folder / "m");
    for (int64_t step = 1; step <= 5; ++step) file.add(StepMetrics{.step = step});
    file.add(EvaluationMetrics{.step = 3});
  }
  MetricsFile(folder / "m", 3).add(StepMetrics{.step = 4});
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<int64_t>{1, 2, 3, 3, 4}));
}

TEST(Metrics, of_a_finished_run_that_is_resumed_keep_its_evaluation_once) {
  const TemporaryFolder folder;
  { MetricsFile(folder / "m").add(EvaluationMetrics{.step = 3, .loss = 0.5}); }
  const std::string before = contents_of(folder / "m");
  MetricsFile(folder / "m", 3).add(EvaluationMetrics{.step = 3, .loss = 0.25});
  EXPECT_EQ(contents_of(folder / "m"), before);
  MetricsFile(folder / "m", 3).add(EvaluationMetrics{.step = 4, .loss = 0.25});
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<int64_t>{3, 4}));
}

TEST(Metrics, of_a_resumed_run_lose_a_line_that_a_crash_tore) {
  const TemporaryFolder folder;
  { MetricsFile(folder / "m").add(StepMetrics{.step = 1}); }
  test::put(folder / "m", contents_of(folder / "m") + R"({"kind":"step","st)");
  MetricsFile(folder / "m", 9).add(StepMetrics{.step = 2});
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<int64_t>{1, 2}));
}

TEST(Metrics, of_a_new_run_replace_those_of_an_earlier_one) {
  const TemporaryFolder folder;
  { MetricsFile(folder / "m").add(StepMetrics{.step = 1}); }
  MetricsFile(folder / "m").add(StepMetrics{.step = 7});
  EXPECT_EQ(steps_in(folder / "m"), (std::vector<int64_t>{7}));
}

}  // namespace
}  // namespace adjoin::train
