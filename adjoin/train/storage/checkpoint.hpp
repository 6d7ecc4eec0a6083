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
///
/// Called by all workers of the grid; worker 0 writes. Gathered one tensor at a time, so a worker needs room for the
/// largest one beside its own pieces.
/// Throws: IoError on worker 0
void save_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces, const Grid& grid,
                const Metadata& metadata = {});

/// Checks that a file holds these pieces, which may be on the meta device, as global tensors and no others.
/// Throws: InvalidArgument where a tensor lacks, has another shape than the piece, or is none of them
void check_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces);

/// Where the tensors that are read come from.
struct StateSource {
  std::optional<std::string> checkpoint{};  // the name of the checkpoint to which the file must belong
  std::string rule{};                       // of an optimizer, whose moments they are
};

/// Reads each worker's pieces from a file of global tensors.
/// Throws: InvalidArgument as check_state does, so for the moments of another rule, and where a number of the worker's
///         pieces, buffers aside, is not finite; OtherCheckpoint
void load_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces,
                const StateSource& source = {});

}  // namespace adjoin::train
