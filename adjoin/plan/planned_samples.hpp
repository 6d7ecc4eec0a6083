#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"

namespace adjoin::plan {

/// The training samples of the batch with the most work, the longest last: when their activations are in memory, all gradients
/// are too. Where the task does not know lengths, it looks at some thousand samples.
std::vector<int64_t> longest_samples(const train::Configuration& configuration, const train::Task& task);

/// The samples of a batch in which each rank along dp has about the work that the busiest rank has on average: the lengths are
/// distributed as on the busiest ranks of the first 256 batches. Where the task does not know lengths, the first batch.
std::vector<int64_t> typical_batch(const train::Configuration& configuration, const train::Task& task);

struct BusiestRank {
  int64_t rank = 0, tokens = 0;
};

/// The rank along dp, of those that share a batch, with the longest samples in total. `lengths`: task.lengths, of all samples;
/// if empty, samples are counted instead.
BusiestRank busiest_rank(const train::Configuration& configuration, const std::vector<int64_t>& lengths,
                         std::span<const int64_t> batch);

}  // namespace adjoin::plan
