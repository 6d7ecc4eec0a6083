#include "adjoin/train/training_order.hpp"

#include <span>
#include <vector>

#include "adjoin/base/hash.hpp"

namespace adjoin::train {
namespace {

// This number of shuffled batches at a time is sorted by length: enough that ranks have the same amount of work, few enough
// that the order stays random.
constexpr int64_t kBucketBatches = 50;

std::vector<int64_t> training_lengths(const Task& task, const HeldOut& samples) {
  const std::vector<int64_t> all = task.lengths(data::Part::train);
  std::vector<int64_t> lengths;
  for (const int64_t sample : samples.train)
    if (!all.empty()) lengths.push_back(all[static_cast<size_t>(sample)]);
  return lengths;
}

}  // namespace

HeldOut hold_out(const Configuration& configuration, const Task& task) {
  return hold_out(task.size(data::Part::train), configuration.validation, static_cast<uint64_t>(configuration.seed));
}

data::Sampler make_sampler(const Configuration& configuration, const Task& task, const HeldOut& samples) {
  return data::Sampler({.samples = std::ssize(samples.train),
                        .batch = configuration.batch,
                        .seed = static_cast<uint64_t>(configuration.seed),
                        .bucket_batches = configuration.bucket ? kBucketBatches : 0},
                       training_lengths(task, samples));
}

uint64_t order_of(const Configuration& configuration, const Task& task, const HeldOut& samples) {
  const std::vector<int64_t> lengths = training_lengths(task, samples);
  const uint64_t seed = mix(static_cast<uint64_t>(configuration.seed)) + (configuration.bucket ? 1 : 0);
  return hash_of(std::span<const int64_t>(lengths), seed);
}

}  // namespace adjoin::train
