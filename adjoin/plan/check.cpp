#include <algorithm>
#include <chrono>
#include <memory>

#include "adjoin/comm/values.hpp"
#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/plan/plan.hpp"
#include "adjoin/plan/planned_samples.hpp"
#include "adjoin/store/messages.hpp"
#include "adjoin/train/trainer.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::plan {
namespace {

constexpr int64_t kTurns = 2, kWarmUp = 2;

/// Adds the seconds of each step of a turn to `seconds`.
void measure_turn(const train::Configuration& c, const train::Task& task, int64_t steps, std::vector<double>& seconds,
                  int64_t& memory) {
  const std::vector<int64_t> longest = longest_samples(c, task), typical = typical_batch(c, task);
  train::run_workers(c, [&](const Communicator& world) {
    PeakMemory peak;
    train::Trainer trainer(c, task, world);
    trainer.initialize();
    std::vector<double> took;
    for (int64_t step = 0; step < kWarmUp + steps; ++step) {
      if (step + 1 == kWarmUp) peak.reset_peak();  // moments exist from the first step on
      world.barrier();
      const auto begin = std::chrono::steady_clock::now();
      trainer.step(step + 1 == kWarmUp ? longest : typical, step, c.lr);
      double of_step = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (step < kWarmUp) continue;
      world.all_reduce(buffer(of_step), Reduction::max);
      took.push_back(of_step);
    }
    const std::vector<int64_t> peaks = peak.peak_bytes_of_all(world);
    if (!train::is_first_of_process(world)) return;
    seconds.insert(seconds.end(), took.begin(), took.end());
    memory = std::max(memory, *std::ranges::max_element(peaks));
  });
}

}  // namespace

std::vector<MeasuredLayout> check(const Plan& plan, const train::TaskMaker& make, size_t count, int64_t steps) {
  count = std::min(count, plan.fitting.size());
  std::vector<std::vector<double>> seconds(count);
  std::vector<MeasuredLayout> measured(count);
  for (int64_t turn = 0; turn < kTurns; ++turn)
    for (size_t i = 0; i < count; ++i) {
      const train::Configuration& c = plan.fitting[i].configuration;
      const train::Silence silence;
      measure_turn(c, *make(c), (steps + kTurns - 1) / kTurns, seconds[i], measured[i].memory);
    }
  for (size_t i = 0; i < count; ++i) {
    measured[i].options = options_of(plan.fitting[i].configuration);
    measured[i].seconds = measure::median(seconds[i]);
  }
  return measured;
}

}  // namespace adjoin::plan
