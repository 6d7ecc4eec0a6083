#include "adjoin/train/bench/side_by_side.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/train/peak_memory.hpp"

namespace adjoin::train {
namespace {

using Seconds = SideBySide::Seconds;

double time_together(const std::function<void()>& work, const Communicator& world) {
  world.barrier();
  const auto begin = std::chrono::steady_clock::now();
  if (work) work();
  world.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run(const Pass& pass) {
  if (pass.forward) pass.forward();
  if (pass.backward) pass.backward();
}

/// Long enough that neither the clock nor the sleep before it matters.
constexpr double kTurnSeconds = 0.03;
constexpr double kMostCalls = 200;

/// As it is alone: other contenders' threads sleep, and its own are awake. The means of as many calls as a turn has time for.
Seconds time_pass(const Pass& pass, const Communicator& world) {
  measure::let_threads_sleep(world);
  double seconds[] = {time_together([&] { run(pass); }, world)};
  world.all_reduce(buffer(seconds), Reduction::max);
  const double calls = std::clamp(std::floor(kTurnSeconds / seconds[0]), 1.0, kMostCalls);
  Seconds sum;
  for (int i = 0; i < calls; ++i) {
    sum.forward += time_together(pass.forward, world) / calls;
    sum.backward += time_together(pass.backward, world) / calls;
  }
  sum.both = sum.forward + sum.backward;
  return sum;
}

Seconds median_of_each(const std::vector<Seconds>& all) {
  const auto of = [&](double Seconds::*part) {
    std::vector<double> values;
    for (const Seconds& seconds : all) values.push_back(seconds.*part);
    return measure::median(values);
  };
  return {of(&Seconds::forward), of(&Seconds::backward), of(&Seconds::both)};
}

SideBySide measure(const Contenders& contenders, int64_t times, const Communicator& world) {
  SideBySide result;
  PeakMemory memory;
  const Pass ours = contenders.distributed(world);
  run(ours);
  result.peak_memory_bytes = memory.peak_bytes_of_all(world);
  if (times == 0) return result;

  const bool is_local = world.rank() == 0;
  const Pass alone = is_local ? contenders.local() : Pass();
  const Pass other = contenders.plain ? contenders.plain(world) : Pass();
  const int threads = at::get_num_threads();
  const auto time_alone = [&] {
    at::set_num_threads(is_local ? threads * world.size() : threads);
    const Seconds seconds = time_pass(alone, world);
    at::set_num_threads(threads);
    return seconds;
  };
  std::vector<Seconds> ours_seconds, alone_seconds, other_seconds;
  std::vector<double> ratios, forward_ratios, plain_ratios;
  for (int64_t i = 0; i < times; ++i) {
    ours_seconds.push_back(time_pass(ours, world));
    alone_seconds.push_back(time_alone());
    ratios.push_back(ours_seconds.back().both / alone_seconds.back().both);
    forward_ratios.push_back(ours_seconds.back().forward / alone_seconds.back().forward);
    if (!contenders.plain) continue;
    other_seconds.push_back(time_pass(other, world));
    plain_ratios.push_back(ours_seconds.back().both / other_seconds.back().both);
  }
  result.distributed = median_of_each(ours_seconds);
  result.local = median_of_each(alone_seconds);
  result.ratio = measure::median(ratios);
  result.forward_ratio = measure::median(forward_ratios);
  if (contenders.plain) {
    result.plain = median_of_each(other_seconds);
    result.plain_ratio = measure::median(plain_ratios);
  }
  return result;
}

}  // namespace

std::vector<SideBySide> side_by_side(const SideBySideOptions& options, const std::vector<Contenders>& all) {
  require(options.times >= 0, "expected a number of measurements, or 0 for the memory alone");
  std::vector<SideBySide> results;
  run_workers(options.workers, [&](const Communicator& world) {
    for (const Contenders& contenders : all) {
      const SideBySide measured = measure(contenders, options.times, world);
      if (speaks_for_process(world)) results.push_back(measured);
    }
  });
  return results;
}

}  // namespace adjoin::train
