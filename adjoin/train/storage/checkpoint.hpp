#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {

/// Writes parameters and buffers as global tensors under their full names, whatever their layouts are: those of a model,
/// nn::parameters_of(model), or of a module with parts of one worker, nn::parameters_of(module, grid).
///
/// Called by all workers of the grid; worker 0 writes. Gathered one tensor at a time, so a worker needs room for the
/// largest one beside its own pieces.
/// Throws: IoError on worker 0
void save_weights(const std::filesystem::path& path, const std::vector<nn::Parameter>& parameters, const Grid& grid,
                  const Metadata& metadata = {});

/// Checks that a file holds these parameters, which may be on the meta device, as global tensors and no others.
/// Throws: InvalidArgument where a tensor lacks, has another shape than the parameter, or is none of them
void check_weights(const std::filesystem::path& path, const std::vector<nn::Parameter>& parameters);

/// Reads each worker's pieces of the parameters from a file of global tensors, which must be of the checkpoint of this
/// name where one is given.
/// Throws: InvalidArgument as check_weights does, and where a number of the worker's pieces is not finite;
///         OtherCheckpoint
void load_weights(const std::filesystem::path& path, const std::vector<nn::Parameter>& parameters,
                  const std::optional<std::string>& checkpoint = {});

/// The same for an optimizer's moments after `steps` updates: global tensors named as its rule names them, with AdamW
/// "first.NAME" and "second.NAME".
/// Throws: InvalidArgument as load_weights does, so for the moments of another rule
void save_moments(const std::filesystem::path& path, const parallel::Optimizer& optimizer, const Grid& grid,
                  const Metadata& metadata = {});
void load_moments(const std::filesystem::path& path, int64_t steps, parallel::Optimizer& optimizer,
                  const std::optional<std::string>& checkpoint = {});

}  // namespace adjoin::train
