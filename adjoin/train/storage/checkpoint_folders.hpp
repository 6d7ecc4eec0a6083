#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace adjoin::train {

/// The file of a checkpoint that comes last.
inline constexpr const char* kStateFile = "state.json";

/// A whole checkpoint of a training run, in its output folder.
struct CheckpointFolder {
  int64_t step = 0;
  std::filesystem::path path;
};

/// The checkpoints of a run, the newest first; also that of a version before them, `checkpoint`. For all, who may only read.
///
/// A checkpoint is filled as checkpoints/step-S.new; its state.json comes last, when all else is on the disk. So what has that
/// file is whole, and what has none is not. It is then called step-S, and one that had that name is called step-S.old first.
/// What is called .old is being removed.
/// Throws: IoError
std::vector<CheckpointFolder> checkpoints_in(const std::filesystem::path& run);

/// Where the checkpoint of a step is filled, checkpoints/step-S.new.
std::filesystem::path fresh_checkpoint(const std::filesystem::path& run, int64_t step);

/// Whether there are any.
bool has_checkpoint(const std::filesystem::path& run);

// For the process that holds the run's folder:

/// Makes fresh_checkpoint, an empty folder. Throws: IoError
void begin_checkpoint(const std::filesystem::path& run, int64_t step);

/// Gives its name to what begin_checkpoint gave, which has its state.json and is on the disk but for the names of its files,
/// and removes the checkpoints older than the newest `keep`; whether all of those went. Where something cannot be removed
/// (network file systems keep what somebody has open), a later call tries again.
/// Throws: IoError
bool publish_checkpoint(const std::filesystem::path& run, int64_t step, int64_t keep);

/// Finishes or undoes what a crash left. Throws: IoError
void recover_checkpoints(const std::filesystem::path& run);

/// Removes the checkpoints of later steps than `step`, the newest first; with -1 all of them at once, after recover_checkpoints.
/// Throws: IoError
void remove_checkpoints_after(const std::filesystem::path& run, int64_t step);

}  // namespace adjoin::train
