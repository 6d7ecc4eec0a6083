#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "adjoin/store/checkpoint_folders.hpp"

namespace adjoin::train {

/// The text of the state.json of a checkpoint whose other files are in a folder: the state, the names of the files with a
/// checksum of each (except tensor files, which have their own), and the checksum of all this. Throws: IoError
std::string sealed_state(nlohmann::ordered_json state, const std::filesystem::path& folder);

/// Checks a checkpoint by the text of its state.json: that it is from sealed_state, that its step is the one in the folder's
/// name, and that all files exist and match their checksums. The tensors are not read. Checkpoints of earlier versions have no
/// checksums to compare.
/// Throws: DamagedFile
void check_whole(const CheckpointFolder& checkpoint, const std::string& state);

}  // namespace adjoin::train
