#pragma once

#include <filesystem>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/adamw.hpp"
#include "adjoin/partition/grid.hpp"

namespace adjoin::train {

/// Writes a model's parameters and buffers as global tensors under their full names, whatever the layout is.
///
/// Called by all workers of the grid; worker 0 writes. Gathered one tensor at a time, so a worker needs room for the
/// largest one beside its own pieces.
/// Throws: IoError on worker 0
void save_weights(const std::filesystem::path& path, const torch::nn::Module& model, const Grid& grid);

/// Reads each worker's pieces of the parameters of a model from a file of global tensors.
/// Throws: InvalidArgument where a tensor lacks, has another shape than the model's, or is none of the model's
void load_weights(const std::filesystem::path& path, const torch::nn::Module& model);

/// The same for an optimizer's moments: global tensors named "first.NAME" and "second.NAME".
void save_moments(const std::filesystem::path& path, const parallel::DataParallelAdamW& optimizer, const Grid& grid);
void load_moments(const std::filesystem::path& path, int64_t steps, parallel::DataParallelAdamW& optimizer);

}  // namespace adjoin::train
