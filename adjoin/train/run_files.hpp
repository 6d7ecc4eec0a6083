#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

class Task;

/// The files of a run's output folder, besides its model and its checkpoints.
inline constexpr const char *kMetrics = "metrics.jsonl", *kSummary = "summary.json", *kRunFile = "run.json",
                            *kTensorBoard = "tensorboard";

/// What is known of a run when it begins: the file run.json, for programs that look at a run before it has ended.
struct RunBeginning {
  Configuration configuration;
  int64_t first_step = 0;  // the step from which the run starts: 0, or a checkpoint's
  int64_t steps = 0;       // of the whole training
};

/// Writes run.json, with place and time, into a run's folder; if the disk refuses, nothing happens.
void write_beginning(const std::filesystem::path& folder, const RunBeginning& beginning);

/// Reads it. For a run of an earlier version, which has no run.json, it uses a checkpoint or a summary; `steps` is then 0.
/// Empty where there is none of these, or where it is damaged.
std::optional<RunBeginning> read_beginning(const std::filesystem::path& folder);

/// A JSON file in a run's folder; null where it is missing or damaged.
nlohmann::ordered_json read_json(const std::filesystem::path& path);

/// Removes the results of an earlier run, so that they are never beside those of the run that begins.
/// Throws: std::filesystem::filesystem_error
void remove_results(const std::filesystem::path& folder, const Task& task);

}  // namespace adjoin::train
