#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/metrics_line.hpp"

namespace adjoin::report {

/// One number of a run along its steps, which increase.
struct Series {
  std::vector<int64_t> steps;
  std::vector<double> values;
};

/// How a run stands.
enum class RunState : uint8_t { finished, running, ended_early };

/// A training run as its output folder tells of it. What a file does not say, is damaged, or an earlier version did not write is
/// left out.
struct Run {
  std::string name;  // the folder, as it was given
  RunState state = RunState::finished;
  std::optional<train::Configuration> configuration{};
  nlohmann::ordered_json summary{};          // summary.json
  nlohmann::ordered_json beginning{};        // run.json
  int64_t steps = 0, last_step = 0;          // of the whole training, 0 where nobody knows; and taken
  int64_t damaged_lines = 0;                 // of metrics.jsonl
  std::vector<std::string> damaged_files{};  // of summary.json and run.json
  std::vector<int64_t> skipped{};            // steps whose gradients were not finite
  std::vector<int64_t> slowest{};            // of each rank, the steps in which it was the slowest
  /// The numbers of metrics.jsonl: of steps, of validations and of evaluations on the test part; in their order there.
  std::vector<std::pair<std::string, Series>> of_steps{}, of_validations{}, of_evaluations{};

  /// "finished", "runs: step 5 of 10", "not finished: step 5 of 10".
  std::string state_text() const;
  /// "summary.json is damaged" and the like; "" where nothing is.
  std::string damage_text() const;
  /// The value of summary.json or else of run.json; null where neither has one.
  const nlohmann::ordered_json& fact(std::string_view key) const;
};

/// Takes the lines of metrics.jsonl into a run, one after another.
void add_line(Run& run, std::string_view text, train::MetricsLine& buffer);

/// Reads a run's folder.
/// Cost:   a second for 500,000 steps
/// Throws: InvalidArgument where the folder holds no run, or one that has not taken a step
Run read_run(const std::string& folder);
/// The same of several, two at a time. Throws: InvalidArgument as read_run, and for a folder that is given twice
std::vector<Run> read_runs(const std::vector<std::string>& folders);

/// Throws: InvalidArgument where there is no folder, or one that no training run has written
void check_is_run(const std::filesystem::path& folder);

/// A number of a JSON object; none where it has none of this key.
std::optional<double> number_of(const nlohmann::ordered_json& json, std::string_view key);

}  // namespace adjoin::report
