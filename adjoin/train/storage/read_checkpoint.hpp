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

/// Whether a training run's output folder holds a checkpoint, be it where a crash left it.
bool has_checkpoint(const std::filesystem::path& run);

/// One checkpoint of a training run, as all workers read it.
struct SavedCheckpoint {
  std::filesystem::path folder;  // where it stands now
  std::string state;             // the text of its state.json
  std::string name;              // "" where the state has none
};

/// Calls `read` on every worker of the world with the same checkpoint of the run in a folder, which another process may be
/// replacing: where that happens before all have read, everything is read again, of a newer checkpoint. So `read` may be
/// called several times; it does not communicate, and what it throws counts only where the checkpoint has stayed.
/// Throws: InvalidArgument where there is no checkpoint, what `read` throws, or where each is replaced before it is read
void read_checkpoint(const std::filesystem::path& run, const Communicator& world,
                     const std::function<void(const SavedCheckpoint&)>& read);

/// A file of tensors which belongs to another checkpoint than expected.
class OtherCheckpoint : public InvalidArgument {
  using InvalidArgument::InvalidArgument;
};

/// Throws: OtherCheckpoint where the file, by its metadata, is not of the checkpoint of this name
void check_belongs(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& checkpoint);

}  // namespace adjoin::train
