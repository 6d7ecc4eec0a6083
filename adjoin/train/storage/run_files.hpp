#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// The files of a run's output folder beside its model and its checkpoints.
inline constexpr const char *kMetrics = "metrics.jsonl", *kSummary = "summary.json", *kRunFile = "run.json",
                            *kTensorBoard = "tensorboard";

/// What is known of a run when it begins: the file run.json, for those who look at a run before it has ended.
struct RunBeginning {
  Configuration configuration;
  int64_t first_step = 0;  // the step that the run has come from: 0, or a checkpoint's
  int64_t steps = 0;       // of the whole training
};

/// Writes run.json, with where and when, into a run's folder, unless the disk refuses it.
void write_beginning(const std::filesystem::path& folder, const RunBeginning& beginning);

/// The same, read; also of a run that an earlier version has begun and that has a checkpoint or a summary, where `steps` is 0.
/// Nothing where neither says it, or what says it is damaged.
std::optional<RunBeginning> read_beginning(const std::filesystem::path& folder);

/// A file of JSON in a run's folder; null where there is none or it is damaged.
nlohmann::ordered_json read_json(const std::filesystem::path& path);

/// Takes away the results of an earlier run, so that they never stand beside those of the one that begins.
/// Throws: std::filesystem::filesystem_error
void remove_results(const std::filesystem::path& folder, const Task& task);

}  // namespace adjoin::train
