#include "adjoin/data/sampler.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/data/random.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::data {
namespace {

void sort_by_length(std::span<int64_t> samples, const std::vector<int64_t>& lengths) {
  std::stable_sort(samples.begin(), samples.end(), [&](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
  });
}

/// Shuffles the batches of `order`, all full, without changing their content.
void shuffle_batches(std::span<int64_t> order, int64_t batch, SplitMix64& random) {
  std::vector<int64_t> begins(order.size() / static_cast<size_t>(batch));
  for (size_t i = 0; i < begins.size(); ++i) begins[i] = static_cast<int64_t>(i) * batch;
  shuffle(begins, random);
  std::vector<int64_t> shuffled;
  for (const int64_t begin : begins)
    shuffled.insert(shuffled.end(), order.begin() + begin, order.begin() + begin + batch);
  std::copy(shuffled.begin(), shuffled.end(), order.begin());
}

}  // namespace

Sampler::Sampler(SamplerOptions options, std::vector<int64_t> lengths)
    : options_(options), lengths_(std::move(lengths)) {
  require(options_.samples > 0, "Sampler: expected at least one sample, got " + std::to_string(options_.samples));
  require(options_.batch > 0, "Sampler: expected a batch of at least 1, got " + std::to_string(options_.batch));
  require(options_.bucket_batches >= 0,
          "Sampler: expected bucket_batches of at least 0, got " + std::to_string(options_.bucket_batches));
  if (lengths_.empty()) options_.bucket_batches = 0;
  require(options_.bucket_batches == 0 || std::ssize(lengths_) == options_.samples,
          "Sampler: buckets need the length of each of the " + std::to_string(options_.samples) + " samples, got " +
              std::to_string(lengths_.size()));
}

std::vector<int64_t> Sampler::next() {
  if (ordered_epoch_ != position_.epoch) {
    order_ = {};  // else there would be two of them for a moment
    order_ = epoch_order(position_.epoch);
    ordered_epoch_ = position_.epoch;
  }
  const int64_t begin = position_.step * options_.batch;
  const int64_t end = std::min(begin + options_.batch, options_.samples);
  if (++position_.step == steps_per_epoch()) position_ = {position_.epoch + 1, 0};
  return {order_.begin() + begin, order_.begin() + end};
}

void Sampler::seek(Position position) {
  require(position.epoch >= 0 && position.step >= 0 && position.step < steps_per_epoch(),
          "Sampler: an epoch has " + std::to_string(steps_per_epoch()) + " steps, there is no step " +
              std::to_string(position.step) + " of epoch " + std::to_string(position.epoch));
  position_ = position;
}

std::vector<int64_t> Sampler::epoch_order(int64_t epoch) const {
  std::vector<int64_t> order(static_cast<size_t>(options_.samples));
  std::iota(order.begin(), order.end(), 0);
  if (!options_.shuffles) return order;
  SplitMix64 random(options_.seed, static_cast<uint64_t>(epoch));
  shuffle(order, random);
  if (options_.bucket_batches > 0) {  // the smaller last batch stays a random one
    const std::span full(order.data(), static_cast<size_t>(options_.samples / options_.batch * options_.batch));
    bucket(full);
    shuffle_batches(full, options_.batch, random);
  }
  return order;
}

void Sampler::bucket(std::span<int64_t> order) const {
  const auto window = static_cast<size_t>(options_.bucket_batches * options_.batch);
  for (size_t begin = 0; begin < order.size(); begin += window)
    sort_by_length(order.subspan(begin, std::min(window, order.size() - begin)), lengths_);
}

BatchPart part_of(int64_t batch, int rank, int size) {
  require(size > 0 && rank >= 0 && rank < size && batch >= 0, "part_of: no rank " + std::to_string(rank) + " of " +
                                                                  std::to_string(size) + " for a batch of " +
                                                                  std::to_string(batch));
  const Range mine = balanced_range(batch, size, rank);
  return {mine.begin, mine.size()};
}

BatchPart part_of(const BatchPart& part, int rank, int size) {
  const BatchPart within = part_of(part.count, rank, size);
  return {part.begin + within.begin, within.count};
}

}  // namespace adjoin::data
