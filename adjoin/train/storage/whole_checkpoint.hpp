#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "adjoin/train/storage/checkpoint_folders.hpp"

namespace adjoin::train {

/// The text of the state.json of a checkpoint whose other files stand in a folder: the state, the names of the files with the
/// checksum of each but those of tensors, which have their own, and the checksum of all this. Throws: IoError
std::string sealed_state(nlohmann::ordered_json state, const std::filesystem::path& folder);

/// Checks a checkpoint by the text of its state.json: that this is what sealed_state gave, of the step that the folder's name says,
/// and that all files are there with their checksums; the tensors are not read. Those of earlier versions have none to compare.
/// Throws: DamagedFile
void check_whole(const CheckpointFolder& checkpoint, const std::string& state);

}  // namespace adjoin::train
