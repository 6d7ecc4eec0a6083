#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adjoin/task/configuration.hpp"
#include "adjoin/train/metrics_line.hpp"

namespace adjoin::report {

/// One number of a run at its steps, which increase.
struct Series {
  std::vector<int64_t> steps;
  std::vector<double> values;
};

/// Whether a run has finished.
enum class RunState : uint8_t { finished, running, ended_early };

/// A training run as its output folder describes it. What a file does not say, because it is damaged or from an earlier
/// version, is empty.
struct Run {
  std::string name;  // the folder, as it was given
  RunState state = RunState::finished;
  std::optional<train::Configuration> configuration{};
  nlohmann::ordered_json summary{};          // summary.json
  nlohmann::ordered_json beginning{};        // run.json
  int64_t steps = 0, last_step = 0;          // steps of the whole training (0 if unknown), and the last one made
  int64_t damaged_lines = 0;                 // of metrics.jsonl
  std::vector<std::string> damaged_files{};  // of summary.json and run.json
  std::vector<int64_t> skipped{};            // steps whose gradients were not finite
  std::vector<int64_t> slowest{};            // for each rank, the number of steps in which it was the slowest
  /// The numbers of metrics.jsonl, in order: of steps, of validations and of evaluations on the test part.
  std::vector<std::pair<std::string, Series>> of_steps{}, of_validations{}, of_evaluations{};

  /// "finished", "runs: step 5 of 10", "not finished: step 5 of 10".
  std::string state_text() const;
  /// "summary.json is damaged" and the like; "" if nothing is damaged.
  std::string damage_text() const;
  /// The value in summary.json, else in run.json; null where neither has it.
  const nlohmann::ordered_json& fact(std::string_view key) const;
};

/// Adds a line of metrics.jsonl to a run; called for each line in order.
void add_line(Run& run, std::string_view text, train::MetricsLine& buffer);

/// Reads a run's folder.
/// Cost:   a second for 500,000 steps
/// Throws: InvalidArgument where the folder holds no run, or a run without a step
Run read_run(const std::string& folder);
/// The same for several runs, two at a time. Throws: InvalidArgument as read_run, and for a folder that is given twice
std::vector<Run> read_runs(const std::vector<std::string>& folders);

/// Throws: InvalidArgument where there is no folder, or where no training run has written it
void check_is_run(const std::filesystem::path& folder);

/// A number of a JSON object; none if it lacks this key.
std::optional<double> number_of(const nlohmann::ordered_json& json, std::string_view key);

}  // namespace adjoin::report
