#include "adjoin/train/event_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "adjoin/train/metrics.hpp"
#include "paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::contents_of;
using test::TemporaryFolder;

/// What TensorBoard's own reader finds in a folder: for each tag a list of [step, value].
nlohmann::json read_by_tensorboard(const std::filesystem::path& folder) {
  const TemporaryFolder printed;
  const std::string command = "'" ADJOIN_PYTHON "' '" ADJOIN_SOURCE_DIR "/tests/tools/read_events.py' '" +
                              folder.string() + "' > '" + (printed / "out").string() + "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << contents_of(printed / "out");
  return nlohmann::json::parse(contents_of(printed / "out"), nullptr, /*allow_exceptions=*/false);
}

std::filesystem::path only_file_in(const std::filesystem::path& folder) {
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  return std::filesystem::directory_iterator(folder)->path();
}

TEST(EventFile, has_the_checksums_of_rfc_3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

TEST(EventFile, is_read_by_tensorboard) {
  const TemporaryFolder folder;
  MetricsFile metrics(folder / "m", 0, folder / "events");
  metrics.add(StepMetrics{.step = 1, .loss = 0.25, .measures = {{"accuracy", 0.75}}, .step_seconds = 0.125});
  metrics.add(EvaluationMetrics{.step = 1, .is_validation = true, .loss = 0.5});
  metrics.add(EvaluationMetrics{.step = 300, .loss = 0.5, .measures = {{"accuracy", 1}}});
  const auto read = read_by_tensorboard(folder / "events");
  EXPECT_EQ(read["train/loss"].dump(), "[[1,0.25]]");
  EXPECT_EQ(read["train/accuracy"].dump(), "[[1,0.75]]");
  EXPECT_EQ(read["train/step_seconds"].dump(), "[[1,0.125]]");
  EXPECT_EQ(read["validation/loss"].dump(), "[[1,0.5]]");
  EXPECT_EQ(read["test/accuracy"].dump(), "[[300,1.0]]");
}

TEST(EventFile, of_a_resumed_run_has_each_step_once) {
  const TemporaryFolder folder;
  {
    MetricsFile metrics(folder / "m", 0, folder / "events");
    for (int64_t step = 1; step <= 5; ++step) metrics.add(StepMetrics{.step = step, .loss = 1, .step_seconds = 10});
  }
  MetricsFile metrics(folder / "m", 3, folder / "events");
  for (int64_t step = 4; step <= 6; ++step) metrics.add(StepMetrics{.step = step, .loss = 2, .step_seconds = 10});
  only_file_in(folder / "events");
  const auto read = read_by_tensorboard(folder / "events");
  EXPECT_EQ(read["train/loss"].dump(), "[[1,1.0],[2,1.0],[3,1.0],[4,2.0],[5,2.0],[6,2.0]]");
  const std::vector<double> times = read["times of train/loss"];
  EXPECT_NEAR(times[2] - times[1], 10, 1e-3) << "as long as the step took";
  EXPECT_LE(times[2], times[3]);
}

TEST(EventFile, begins_with_steps_that_were_taken_without_one) {
  const TemporaryFolder folder;
  {
    MetricsFile metrics(folder / "m");
    metrics.add(StepMetrics{.step = 1, .loss = 1});
  }
  MetricsFile metrics(folder / "m", 1, folder / "events");
  metrics.add(StepMetrics{.step = 2, .loss = 2});
  EXPECT_EQ(read_by_tensorboard(folder / "events")["train/loss"].dump(), "[[1,1.0],[2,2.0]]");
}

}  // namespace
}  // namespace adjoin::train
