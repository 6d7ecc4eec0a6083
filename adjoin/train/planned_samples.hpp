#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// The training samples of the batch that has the most to do, the longest last: their activations lie beside all gradients.
/// Where the task does not know their lengths, some thousand are looked at.
std::vector<int64_t> longest_samples(const Configuration& configuration, const Task& task);

/// Training samples of a batch that has about as much to do as batches have in the mean, all about as long; where the task does not
/// know their lengths, samples from all of the data.
std::vector<int64_t> typical_samples(const Configuration& configuration, const Task& task);

}  // namespace adjoin::train
