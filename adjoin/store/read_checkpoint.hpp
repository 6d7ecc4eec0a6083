#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

/// Each checkpoint has a random name, which is in its state.json and in the metadata of its tensor files. So a reader sees
/// which files belong together, and a worker sees whether it reads what the others read.
inline constexpr const char* kCheckpointKey = "checkpoint";
std::string new_checkpoint_name();

/// Chooses a checkpoint of a training run: that of a step, or the newest.
struct CheckpointChoice {
  std::filesystem::path run;  // the output folder
  int64_t step = 0;           // 0: the newest
};

/// One checkpoint of a training run, as all workers read it.
struct SavedCheckpoint {
  std::filesystem::path folder;  // its current place
  std::string state;             // the text of its state.json
  std::string name;              // "" if the state has none
};

/// Calls `read` on every worker of the world with the same checkpoint, even while another process continues the run: if a
/// checkpoint is replaced or removed before all workers have read it, all look again. If the newest is damaged, the one before
/// it is used, with a warning.
///
/// So `read` may be called several times. It may communicate; if it throws on one worker, it must throw alike on all
/// (fail_alike() ensures that).
/// Throws: InvalidArgument where there is no checkpoint, or none of that step, with a list of those that exist; DamagedFile
///         where none is whole; else what `read` throws
void read_checkpoint(const CheckpointChoice& choice, const Communicator& world,
                     const std::function<void(const SavedCheckpoint&)>& read);

/// Throws: DamagedFile where the file's metadata say that it does not belong to the checkpoint of this name
void check_belongs(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& checkpoint);

}  // namespace adjoin::train
