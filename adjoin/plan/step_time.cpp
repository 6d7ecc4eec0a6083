#include "adjoin/plan/step_time.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "adjoin/pipeline/simulation.hpp"

namespace adjoin::plan {

namespace {

/// The seconds that halves save on a rank whose segments take `all` seconds with their calls. Of n calls and as many pieces of
/// computing between them, those of one half are beside those of the other, except one at the end of each pair.
double seconds_saved(const train::Configuration& c, const StageWork& work, double all, const StepCosts& costs) {
  if (!c.halves || costs.ranks_a_host > 1) return 0;
  double calling = 0, count = 0;
  for (const auto* calls : {&work.forward, &work.backward})
    for (const PlannedCall& call : *calls)
      if (call.ranks == c.tp && call.span == c.tp) calling += costs.call(call), ++count;
  return count == 0 ? 0 : std::min(calling, all - calling) * (1 - static_cast<double>(c.microbatches) / count);
}

}  // namespace

StepTime step_time(const train::Configuration& configuration, const train::Stages& stages,
                   std::span<const RankPlan> ranks, const StepCosts& costs) {
  const auto seconds_of = [&](std::span<const PlannedCall> calls) {
    double sum = 0;
    for (const PlannedCall& call : calls) sum += costs.call(call);
    return sum;
  };
  // Ranks that meet within their segments wait for the slowest each time. Differences of independent ranks partly cancel, like
  // the sum of independent random numbers.
  const auto seconds_waiting = [](const StageWork& work) {
    const bool meet = !work.forward.empty() || !work.backward.empty();
    return work.seconds.waiting / (meet ? 1 : std::sqrt(std::max<double>(1, static_cast<double>(work.passes))));
  };
  const auto count = static_cast<double>(parts_of_step(configuration));
  pipeline::Costs of_stages{.stages = std::vector<pipeline::StageCosts>(static_cast<size_t>(stages.count()))};
  double computing = 0, communicating = 0, updating = 0;  // sums over all ranks; updating: of the slowest
  double saved = 0;
  for (const RankPlan& rank : ranks) {
    for (const StageWork& work : rank.work) {
      const double forward = seconds_of(work.forward);
      const double backward = seconds_of(work.backward) + seconds_waiting(work);
      of_stages.stages[static_cast<size_t>(work.stage)] = {(work.seconds.forward + forward) / count,
                                                           (work.seconds.backward + backward) / count,
                                                           work.seconds.weight_gradients / count};
      computing += work.seconds.forward + work.seconds.backward + work.seconds.weight_gradients;
      communicating += forward + backward;
      const SegmentSeconds& seconds = work.seconds;
      saved += seconds_saved(configuration, work,
                             seconds.forward + seconds.backward + seconds.weight_gradients + forward + backward, costs);
      if (work.sent == 0) continue;
      const auto along_pp = static_cast<int>(configuration.pp);
      const int span = static_cast<int>(configuration.cp * configuration.tp) * (along_pp - 1) + 1;
      of_stages.transfer = std::max(of_stages.transfer,
                                    costs.call({std::nullopt, along_pp, work.sent / configuration.microbatches, span}));
    }
    const double update = costs.update(rank), calls = seconds_of(rank.update);
    computing += update;
    communicating += calls;
    updating = std::max(updating, update + calls);
  }
  StepTime time{.seconds = pipeline::simulate(stages.schedule, of_stages).makespan + updating - saved};
  const double all = time.seconds * static_cast<double>(ranks.size());
  time.computing = computing / all;
  time.communicating = (communicating - saved) / all;
  time.bubble = std::max(0.0, 1 - time.computing - time.communicating);
  return time;
}

}  // namespace adjoin::plan
