#include "adjoin/comm/measure/timing.hpp"

#include <algorithm>
#include <chrono>

namespace adjoin::measure {

namespace {

using Clock = std::chrono::steady_clock;

/// A block is as long as this, so that neither the clock nor the meetings around it matter.
constexpr double kBlockMicroseconds = 500;
constexpr int kMostCalls = 5000;

/// Microseconds for one of `calls` calls, from when the first rank begins until the last has ended.
double time_block(const Communicator& world, const Call& call, int calls) {
  world.barrier();
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  world.barrier();
  double slowest[] = {std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls};
  world.all_reduce(buffer(slowest), Reduction::max);
  return slowest[0];
}

}  // namespace

std::vector<std::vector<double>> time_blocks(const Communicator& world, std::span<const Call> contenders,
                                             const Effort& effort) {
  std::vector<int> calls, blocks;
  for (const Call& contender : contenders) {
    time_block(world, contender, 2);  // touches memory, opens connections
    const double one = std::max(1e-3, time_block(world, contender, 3));
    calls.push_back(static_cast<int>(std::clamp(kBlockMicroseconds / one, 1.0, double{kMostCalls})));
    const double affordable = effort.seconds * 1e6 / (one * calls.back());
    blocks.push_back(static_cast<int>(std::clamp<double>(affordable, effort.least_blocks, effort.most_blocks)));
  }
  std::vector<std::vector<double>> times(contenders.size());
  for (int block = 0; block < effort.most_blocks; ++block)
    for (size_t i = 0; i < contenders.size(); ++i)
      if (block < blocks[i]) times[i].push_back(time_block(world, contenders[i], calls[i]));
  return times;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace adjoin::measure
