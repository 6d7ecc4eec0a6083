#include "adjoin/train/planned_samples.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "adjoin/train/validation.hpp"

namespace adjoin::train {
namespace {

std::vector<int64_t> trained_on(const Configuration& c, const Task& task) {
  return hold_out(task.size(data::Part::train), c.validation, static_cast<uint64_t>(c.seed)).train;
}

size_t of_a_batch(const Configuration& c, size_t samples) {
  return std::min(samples, static_cast<size_t>(c.batch));
}

}  // namespace

std::vector<int64_t> longest_samples(const Configuration& c, const Task& task) {
  constexpr size_t kLookedAt = 4096;
  std::vector<int64_t> samples = trained_on(c, task);
  const std::vector<int64_t> lengths = task.lengths(data::Part::train);
  const size_t step = lengths.empty() ? std::max<size_t>(1, samples.size() / std::max<size_t>(kLookedAt, c.batch)) : 1;
  std::vector<std::pair<double, int64_t>> longest;
  for (size_t i = 0; i < samples.size(); i += step) {
    const int64_t sample = samples[i];
    longest.emplace_back(lengths.empty() ? task.loss_denominator(data::Part::train, {&sample, 1})
                                         : static_cast<double>(lengths[static_cast<size_t>(sample)]),
                         sample);
  }
  const size_t count = of_a_batch(c, longest.size());
  std::sort(longest.begin(), longest.end());
  samples.clear();
  for (size_t i = longest.size() - count; i < longest.size(); ++i) samples.push_back(longest[i].second);
  return samples;
}

std::vector<int64_t> typical_samples(const Configuration& c, const Task& task) {
  std::vector<int64_t> samples = trained_on(c, task);
  const std::vector<int64_t> lengths = task.lengths(data::Part::train);
  const size_t count = of_a_batch(c, samples.size());
  if (lengths.empty()) {
    for (size_t i = 0; i < count; ++i) samples[i] = samples[i * samples.size() / count];
  } else {
    double mean = 0;
    for (const int64_t sample : samples)
      mean += static_cast<double>(lengths[static_cast<size_t>(sample)]) / static_cast<double>(samples.size());
    const auto distance = [&](int64_t sample) {
      return std::abs(static_cast<double>(lengths[static_cast<size_t>(sample)]) - mean);
    };
    std::stable_sort(samples.begin(), samples.end(), [&](int64_t a, int64_t b) { return distance(a) < distance(b); });
  }
  samples.resize(count);
  return samples;
}

}  // namespace adjoin::train
