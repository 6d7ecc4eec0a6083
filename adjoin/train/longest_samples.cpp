#include <algorithm>

#include "adjoin/train/step_plan.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::train {

std::vector<int64_t> longest_samples(const Configuration& c, const Task& task) {
  constexpr size_t kLookedAt = 4096;
  std::vector<int64_t> samples =
      hold_out(task.size(data::Part::train), c.validation, static_cast<uint64_t>(c.seed)).train;
  const std::vector<int64_t> lengths = task.lengths(data::Part::train);
  const size_t step = lengths.empty() ? std::max<size_t>(1, samples.size() / std::max<size_t>(kLookedAt, c.batch)) : 1;
  std::vector<std::pair<double, int64_t>> longest;
  for (size_t i = 0; i < samples.size(); i += step) {
    const int64_t sample = samples[i];
    longest.emplace_back(lengths.empty() ? task.loss_denominator(data::Part::train, {&sample, 1})
                                         : static_cast<double>(lengths[static_cast<size_t>(sample)]),
                         sample);
  }
  const auto count = std::min(longest.size(), static_cast<size_t>(c.batch));
  std::sort(longest.begin(), longest.end());
  samples.clear();
  for (size_t i = longest.size() - count; i < longest.size(); ++i) samples.push_back(longest[i].second);
  return samples;
}

}  // namespace adjoin::train
