#include "adjoin/plan/planned_samples.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "adjoin/data/sampler.hpp"
#include "adjoin/train/training_order.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

std::span<const int64_t> part_of(std::span<const int64_t> batch, int64_t rank, int64_t ranks) {
  const data::BatchPart part = data::part_of(std::ssize(batch), static_cast<int>(rank), static_cast<int>(ranks));
  return batch.subspan(static_cast<size_t>(part.begin), static_cast<size_t>(part.count));
}

}  // namespace

std::vector<int64_t> longest_samples(const Configuration& c, const Task& task) {
  constexpr size_t kLookedAt = 4096;
  std::vector<int64_t> samples = hold_out(c, task).train;
  const std::vector<int64_t> lengths = task.lengths(data::Part::train);
  const size_t step = lengths.empty() ? std::max<size_t>(1, samples.size() / std::max<size_t>(kLookedAt, c.batch)) : 1;
  std::vector<std::pair<double, int64_t>> longest;
  for (size_t i = 0; i < samples.size(); i += step) {
    const int64_t sample = samples[i];
    longest.emplace_back(lengths.empty() ? task.loss_denominator(data::Part::train, {&sample, 1})
                                         : static_cast<double>(lengths[static_cast<size_t>(sample)]),
                         sample);
  }
  const size_t count = std::min(longest.size(), static_cast<size_t>(c.batch));
  std::sort(longest.begin(), longest.end());
  samples.clear();
  for (size_t i = longest.size() - count; i < longest.size(); ++i) samples.push_back(longest[i].second);
  return samples;
}

std::vector<int64_t> typical_batch(const Configuration& c, const Task& task) {
  constexpr size_t kMostBatches = 256;
  const HeldOut samples = hold_out(c, task);
  const std::vector<int64_t> lengths = task.lengths(data::Part::train);
  data::Sampler sampler = make_sampler(c, task, samples);
  const auto next = [&] {
    std::vector<int64_t> batch = sampler.next();
    for (int64_t& sample : batch) sample = samples.train[static_cast<size_t>(sample)];
    return batch;
  };
  std::vector<int64_t> first = next();
  if (lengths.empty()) return first;
  const int64_t whole = std::max<int64_t>(1, std::ssize(samples.train) / c.batch);  // the last of an epoch is smaller
  std::vector<int64_t> busiest;  // the samples of the busiest ranks of all batches
  for (size_t i = 0; i < std::min(kMostBatches, static_cast<size_t>(whole)); ++i) {
    const std::vector<int64_t> batch = i == 0 ? first : next();
    const std::span<const int64_t> part = part_of(batch, busiest_rank(c, lengths, batch).rank, c.dp);
    busiest.insert(busiest.end(), part.begin(), part.end());
  }
  std::ranges::stable_sort(busiest, {}, [&](int64_t sample) { return lengths[static_cast<size_t>(sample)]; });
  // As many samples as a rank has, evenly from all lengths, in an order that gives each micro-batch short and long ones.
  const size_t count = part_of(first, 0, c.dp).size(), all = busiest.size();
  auto stride = static_cast<size_t>(0.618 * static_cast<double>(count)) + 1;
  while (std::gcd(stride, count) != 1) ++stride;
  std::vector<int64_t> batch;
  for (int64_t rank = 0; rank < c.dp; ++rank)
    for (size_t i = 0; i < part_of(first, rank, c.dp).size(); ++i)
      batch.push_back(busiest[(2 * (i * stride % count) + 1) * all / (2 * count)]);
  return batch;
}

BusiestRank busiest_rank(const Configuration& c, const std::vector<int64_t>& lengths, std::span<const int64_t> batch) {
  BusiestRank busiest{.tokens = -1};
  for (int64_t rank = 0; rank < c.dp; ++rank) {
    const std::span<const int64_t> part = part_of(batch, rank, c.dp);
    int64_t tokens = lengths.empty() ? std::ssize(part) : 0;
    if (!lengths.empty())
      for (const int64_t sample : part) tokens += lengths[static_cast<size_t>(sample)];
    if (tokens > busiest.tokens) busiest = {rank, tokens};
  }
  return busiest;
}

}  // namespace adjoin::plan
