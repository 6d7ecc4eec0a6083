#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// Each checkpoint has a random name, which stands in its state.json and in the metadata of its tensors' files: so a
/// reader sees which files belong together, and a worker whether it reads what the others read.
inline constexpr const char* kCheckpointKey = "checkpoint";
std::string new_checkpoint_name();

/// Which checkpoint of which training run: that of a step, or the newest.
struct CheckpointChoice {
  std::filesystem::path run;  // the output folder
  int64_t step = 0;           // 0: the newest
};

/// One checkpoint of a training run, as all workers read it.
struct SavedCheckpoint {
  std::filesystem::path folder;  // where it stands now
  std::string state;             // the text of its state.json
  std::string name;              // "" where the state has none
};

/// Calls `read` on every worker of the world with the same checkpoint, while another process may go on with the run: where a
/// checkpoint is replaced or removed before all have read it, all look again. The newest is passed over, with a warning, for the
/// one before where it is damaged.
///
/// So `read` may be called several times. It may communicate, and where it throws, which is after that of no more than some
/// workers, it throws alike on all (together does so).
/// Throws: InvalidArgument where there is no checkpoint, or none of that step, with those there are; DamagedFile where none is
///         whole; else what `read` throws
void read_checkpoint(const CheckpointChoice& choice, const Communicator& world,
                     const std::function<void(const SavedCheckpoint&)>& read);

/// Throws: DamagedFile where the file, by its metadata, is not of the checkpoint of this name
void check_belongs(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& checkpoint);

/// Calls `use` with the folder of a model: that of a finished run or of transformers itself, or a run's newest checkpoint.
/// Throws: InvalidArgument as read_checkpoint
void read_model_folder(const std::filesystem::path& folder,
                       const std::function<void(const std::filesystem::path& folder)>& use);

}  // namespace adjoin::train
