#include "adjoin/train/bench/bubble.hpp"

#include <array>

#include "adjoin/lab/measure/timing.hpp"
#include "adjoin/pipeline/simulation.hpp"

namespace adjoin::train {
namespace {

using ActionKind = pipeline::Kind;
constexpr std::array kKindsOfActions{ActionKind::forward, ActionKind::backward, ActionKind::input, ActionKind::weight};

}  // namespace

void BubbleMeter::begin_step() {
  steps_.push_back({.begin = std::chrono::steady_clock::now()});
}

void BubbleMeter::note(const pipeline::Action& action, double seconds) {
  Step& step = steps_.back();
  step.last_end = std::chrono::duration<double>(std::chrono::steady_clock::now() - step.begin).count();
  Sum& sum = step.actions[{action.stage, action.kind}];
  sum.seconds += seconds;
  sum.count += 1;
}

Bubble BubbleMeter::bubble(const Communicator& world) const {
  std::vector<double> measured, simulated;
  for (const Step& step : steps_) {
    const Bubble bubble = bubble_of(step, world);
    measured.push_back(bubble.measured);
    simulated.push_back(bubble.simulated);
  }
  return {measure::median(measured), measure::median(simulated)};
}

Bubble BubbleMeter::bubble_of(const Step& step, const Communicator& world) const {
  std::vector<double> sums;  // seconds and number of each stage's actions of each kind
  for (int stage = 0; stage < schedule_.stages; ++stage)
    for (const ActionKind kind : kKindsOfActions) {
      const auto found = step.actions.find({stage, kind});
      const Sum sum = found == step.actions.end() ? Sum() : found->second;
      sums.insert(sums.end(), {sum.seconds, sum.count});
    }
  world.all_reduce(buffer(sums));
  double makespan = step.last_end;
  world.all_reduce(buffer(makespan), Reduction::max);

  pipeline::Costs costs;
  double busy = 0;
  for (auto sum = sums.begin(); sum != sums.end();) {
    std::map<ActionKind, double> mean;
    for (const ActionKind kind : kKindsOfActions) {
      const double seconds = *sum++, count = *sum++;
      busy += seconds;
      mean[kind] = count > 0 ? seconds / count : 0;
    }
    // In the simulation a backward costs as much as input and weight together.
    costs.stages.push_back(
        {mean[ActionKind::forward], mean[ActionKind::backward] + mean[ActionKind::input], mean[ActionKind::weight]});
  }
  return {1 - busy / (world.size() * makespan), pipeline::simulate(schedule_, costs).bubble};
}

}  // namespace adjoin::train
