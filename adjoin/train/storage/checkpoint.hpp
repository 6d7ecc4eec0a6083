#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// Writes pieces as global tensors under their full names, whatever their layouts are: the parameters and buffers of a model,
/// nn::parameters_of(model), or of a module with parts of one worker, nn::parameters_of(module, grid), or an optimizer's moments.
/// The file has a checksum of each tensor, the same for every layout.
///
/// Called by all workers of the grid, which all write: each its pieces, or a part of what several hold. The file takes its place
/// when all of it is on the disk.
/// Throws: InvalidArgument for layouts that are partial or whose parts overlap, and metadata whose key begins with "checksum.";
///         IoError on the worker whose disk refuses
void save_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces, const Grid& grid,
                const Metadata& metadata = {});

/// Checks that a file holds these pieces, which may be on the meta device, as global tensors and no others.
/// Throws: InvalidArgument where a tensor lacks, has another shape than the piece, or is none of them
void check_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces);

/// Where the tensors that are read come from.
struct StateSource {
  std::optional<std::string> checkpoint{};  // the name of the checkpoint to which the file must belong
  std::string rule{};                       // of an optimizer, whose moments they are
  bool may_hold_more = false;               // the file holds tensors beside those that are read
};

/// Reads each worker's pieces from a file of global tensors, and no more of it than these and what lies between two runs of them
/// that are less than 64 KiB apart.
///
/// Called by all workers of the pieces' world, which check together whether each tensor has its checksum, where the file has any.
/// Numbers of floating point become those of the piece's type; others have that type already.
/// Throws, on all of them alike: InvalidArgument as check_state does, so for the moments of another rule, and where a file
///         without checksums has numbers that are not finite, buffers aside; DamagedFile
void load_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces,
                const StateSource& source = {});

}  // namespace adjoin::train
