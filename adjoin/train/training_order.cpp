#include "adjoin/train/training_order.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/text.hpp"

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
                        .bucket_batches = configuration.bucket ? kBucketBatches : 0,
                        .shuffles = configuration.shuffle == SampleOrder::on},
                       training_lengths(task, samples));
}

void check_batches(const Configuration& c, const Task& task) {
  const HeldOut samples = hold_out(c, task);
  const std::optional<int64_t> only = task.samples_at_once();
  const auto check = [&](int64_t count, const std::string& what) {
    require(!only || count == 0 || count == *only, [&] {
      return c.program + ": it takes " + std::to_string(*only) + " samples at once alone, and " + what + " has " +
             std::to_string(count) +
             ": export it with this size dynamic, or choose --batch, --microbatches and --samples";
    });
  };
  const auto parts = static_cast<int>(parts_of_step(c));
  const auto check_step = [&](int64_t batch, const std::string& what) {
    require(batch == 0 || batch >= parts, [&] {
      return "--microbatches " + std::to_string(parts) + ": " + what + " has " + counted(batch, "sample") +
             ", and a program takes no micro-batch without samples";
    });
    for (int part = 0; part < parts; ++part) check(data::part_of(batch, part, parts).count, what);
  };
  const int64_t trained = std::ssize(samples.train), at_once = std::max<int64_t>(1, c.batch / c.microbatches);
  if (trained >= c.batch) check_step(c.batch, "a step");
  check_step(trained % c.batch, "the last step of an epoch");
  for (const auto& [count, name] :
       {std::pair(task.size(data::Part::test), "the test samples"),
        std::pair<int64_t, const char*>(std::ssize(samples.validation), "the samples held out")}) {
    if (count >= at_once) check(at_once, std::string("a batch of ") + name);
    check(count % at_once, std::string("the last batch of ") + name);
  }
}

uint64_t order_of(const Configuration& configuration, const Task& task, const HeldOut& samples) {
  const std::vector<int64_t> lengths = training_lengths(task, samples);
  const uint64_t seed = mix(static_cast<uint64_t>(configuration.seed)) + (configuration.bucket ? 1 : 0) +
                        (configuration.shuffle == SampleOrder::off ? 2 : 0);
  return hash_of(std::span<const int64_t>(lengths), seed);
}

}  // namespace adjoin::train
