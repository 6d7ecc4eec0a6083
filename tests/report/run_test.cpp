#include "adjoin/report/run.hpp"

#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "adjoin/store/output_folder.hpp"
#include "run_folders.hpp"

namespace adjoin::report {
namespace {

using test::make_run;
using test::message_of;
using test::TemporaryFolder;

TEST(ReadRun, has_each_number_of_metrics_with_its_steps) {
  const TemporaryFolder folder;
  make_run(folder / "a", 3);
  const auto run = read_run((folder / "a").string());
  std::vector<std::string> keys;
  for (const auto& [key, series] : run.of_steps) {
    keys.push_back(key);
    EXPECT_EQ(series.steps, (std::vector<int64_t>{1, 2, 3})) << key;
  }
  EXPECT_EQ(keys,
            (std::vector<std::string>{"epoch", "loss", "accuracy", "learning_rate", "tokens_per_second", "step_seconds",
                                      "waiting_seconds", "communicating_seconds", "slowest_rank"}));
  EXPECT_EQ(run.of_steps[1].second.values, (std::vector<double>{1, 0.5, 1.0 / 3}));
}

TEST(ReadRun, names_damaged_files) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  make_run(path, 3);
  EXPECT_EQ(read_run(path.string()).damage_text(), "");
  test::put(path / "summary.json", "{\"test_loss\": ");
  test::put(path / "run.json", "[]");
  EXPECT_EQ(read_run(path.string()).damage_text(), "summary.json is damaged; run.json is damaged");
}

TEST(ReadRun, counts_damaged_lines_and_takes_the_others) {
  const TemporaryFolder folder;
  make_run(folder / "a", 3);
  const std::string whole = test::contents_of(folder / "a" / "metrics.jsonl");
  test::put(folder / "a" / "metrics.jsonl",
            whole + "no json\n[1]\n{\"kind\":\"step\"}\n{\"step\":4}\n{\"kind\":\"step\",\"step\":-1}\n" +
                "{\"kind\":\"step\",\"step\":2,\"loss\":1}\n{\"kind\":\"step\",\"step\":4,\"loss\":7}\n" +
                "{\"kind\":\"of another version\",\"step\":4}\n{\"kind\":\"step\",\"st");
  const auto run = read_run((folder / "a").string());
  EXPECT_EQ(run.damaged_lines, 7);
  EXPECT_EQ(run.last_step, 4);
  EXPECT_EQ(run.of_steps[1].second.values.back(), 7);
}

TEST(ReadRun, leaves_out_what_is_no_number_and_counts_skipped_steps) {
  const TemporaryFolder folder;
  make_run(folder / "a", 1);
  train::MetricsFile file(folder / "a" / "metrics.jsonl", 1);
  file.add(train::StepMetrics{.step = 2, .loss = std::numeric_limits<double>::quiet_NaN(), .skipped = true});
  const auto run = read_run((folder / "a").string());
  EXPECT_EQ(run.skipped, (std::vector<int64_t>{2}));
  EXPECT_EQ(run.damaged_lines, 0);
  for (const auto& [key, series] : run.of_steps)
    if (key == "loss") {
      EXPECT_EQ(series.steps, (std::vector<int64_t>{1}));
    }
}

TEST(ReadRun, tells_finished_running_and_ended_runs_apart) {
  const TemporaryFolder folder;
  make_run(folder / "a", 5);
  train::write_beginning(folder / "a", {.configuration = test::tiny_with_ranks(1, 1, 1), .steps = 10});
  const auto state = [&] { return read_run((folder / "a").string()).state_text(); };
  EXPECT_EQ(state(), "not finished: step 5 of 10");
  {
    const train::OutputFolder held(folder / "a");
    EXPECT_EQ(state(), "goes on: step 5 of 10");
  }
  test::put_summary(folder / "a", test::summary_of(test::tiny_with_ranks(1, 1, 1)));
  EXPECT_EQ(state(), "finished");
}

TEST(ReadRun, refuses_what_is_no_run) {
  const TemporaryFolder folder;
  const auto refusal = [](const std::filesystem::path& path) {
    return message_of<InvalidArgument>([&] { read_run(path.string()); });
  };
  EXPECT_EQ(refusal(folder / "none"), (folder / "none").string() + ": there is no such folder");
  std::filesystem::create_directory(folder / "empty");
  EXPECT_EQ(refusal(folder / "empty"),
            (folder / "empty").string() + ": is not an output folder of adjoin train: it is empty");
  test::put(folder / "file", "x");
  EXPECT_EQ(refusal(folder / "file"), (folder / "file").string() + ": is not a folder");
  EXPECT_EQ(refusal(folder.path()), folder.path().string() + ": is not an output folder of adjoin train");
  std::filesystem::create_directory(folder / "begun");
  test::put(folder / "begun" / ".adjoin", "");
  EXPECT_EQ(refusal(folder / "begun"),
            (folder / "begun").string() + ": the run has not taken a step yet, so there is nothing to report");
}

TEST(ReadRuns, refuses_a_folder_that_is_given_twice) {
  const TemporaryFolder folder;
  make_run(folder / "a", 1);
  const std::string once = (folder / "a").string(), again = (folder / "." / "a").string();
  EXPECT_EQ(message_of<InvalidArgument>([&] { read_runs({once, again}); }), again + " is given twice");
}

}  // namespace
}  // namespace adjoin::report
