#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace adjoin::train {

/// The last file of a checkpoint that is written.
inline constexpr const char* kStateFile = "state.json";

/// A complete checkpoint of a training run, in its output folder.
struct CheckpointFolder {
  int64_t step = 0;
  std::filesystem::path path;
};

/// The checkpoints of a run, the newest first, including the one of earlier versions, `checkpoint`. Also for processes that may
/// only read.
///
/// A checkpoint is written into checkpoints/step-S.new. Its state.json comes last, when everything else is on the disk, so a
/// folder with that file is complete. The folder is then renamed to step-S; an earlier folder of that name is renamed to
/// step-S.old before. A folder named .old is being removed.
/// Throws: IoError
std::vector<CheckpointFolder> checkpoints_in(const std::filesystem::path& run);

/// The folder into which the checkpoint of a step is written, checkpoints/step-S.new.
std::filesystem::path fresh_checkpoint(const std::filesystem::path& run, int64_t step);

/// Whether a run has any checkpoint.
bool has_checkpoint(const std::filesystem::path& run);

// For the process that holds the run's folder:

/// Makes fresh_checkpoint, an empty folder. Throws: IoError
void begin_checkpoint(const std::filesystem::path& run, int64_t step);

/// Renames the folder that begin_checkpoint made; it must have its state.json, and all of it must be on the disk except the
/// names of its files. Then removes all checkpoints except the newest `keep`, and returns whether that succeeded for all. Where
/// something cannot be removed (network file systems keep what somebody has open), a later call tries again.
/// Throws: IoError
bool publish_checkpoint(const std::filesystem::path& run, int64_t step, int64_t keep);

/// Finishes or undoes what a crash left unfinished. Throws: IoError
void recover_checkpoints(const std::filesystem::path& run);

/// Removes the checkpoints of steps after `step`, the newest first; with -1 it removes all at once. To call after
/// recover_checkpoints.
/// Throws: IoError
void remove_checkpoints_after(const std::filesystem::path& run, int64_t step);

}  // namespace adjoin::train
