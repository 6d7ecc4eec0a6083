#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// The training samples of the batch that has the most to do, the longest last: their activations lie beside all gradients.
/// Where the task does not know their lengths, some thousand are looked at.
std::vector<int64_t> longest_samples(const Configuration& configuration, const Task& task);

/// The samples of a batch in which each rank along dp has about as much to do as the busiest has in the mean: lengths are spread as
/// those of the busiest ranks of the first 256 batches are. Where the task does not know their lengths, the first batch.
std::vector<int64_t> typical_batch(const Configuration& configuration, const Task& task);

struct BusiestRank {
  int64_t rank = 0, tokens = 0;
};

/// Of the ranks along dp, which share a batch, the one whose samples are longest together. `lengths`: task.lengths, of all samples;
/// where there are none, samples are counted.
BusiestRank busiest_rank(const Configuration& configuration, const std::vector<int64_t>& lengths,
                         std::span<const int64_t> batch);

}  // namespace adjoin::train
