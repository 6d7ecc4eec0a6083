#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/store/safetensors.hpp"

namespace adjoin::train {

/// The files of a checkpoint: weights, moments, and the weights that validation found best.
inline constexpr const char *kWeightsFile = "model.safetensors", *kMomentsFile = "optimizer.safetensors",
                            *kBestFile = "best.safetensors";

/// Writes pieces on any layouts as global tensors under their full names: the parameters and buffers of a model
/// (nn::parameters_of(model)) or of a module with parts of one worker (nn::parameters_of(module, grid)), or an optimizer's
/// moments. The file has a checksum of each tensor, which is the same for every layout.
///
/// All workers of the grid call it, and all write: each its pieces, or a part of a piece that several hold. The file gets its
/// name when all of it is on the disk.
/// Throws: InvalidArgument for layouts that are partial or whose parts overlap, and for a metadata key that begins with
///         "checksum."; IoError on all workers alike where a disk refuses
void save_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces, const Grid& grid,
                const Metadata& metadata = {});

/// Checks that a file holds exactly these pieces, which may be on the meta device, as global tensors.
/// Throws: InvalidArgument where a tensor is missing, has another shape than the piece, or belongs to no piece
void check_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces);

/// What is known about the file that is read.
struct StateSource {
  std::optional<std::string> checkpoint{};  // the name of the checkpoint to which the file must belong
  std::string rule{};                       // the rule of the optimizer, if its moments are read
  bool may_hold_more = false;               // the file may have more tensors than are read
};

/// Reads each worker's pieces from a file of global tensors, and nothing else, except what is between two runs of a piece that
/// are less than 64 KiB apart.
///
/// All workers of the pieces' world call it, and check the checksums together, if the file has any. Floating-point numbers are
/// converted to the piece's type; other numbers have the piece's type already.
/// Throws, on all workers alike: InvalidArgument as check_state does, also for the moments of another rule, and where a file
/// without checksums has numbers that are not finite, except in buffers; DamagedFile
void load_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces,
                const StateSource& source = {});

}  // namespace adjoin::train
