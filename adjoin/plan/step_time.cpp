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

/// The calls of a phase of a step, in seconds, by what they go on beside.
struct Calls {
  double waited = 0;   // for which the rank waits at once
  double beside = 0;   // beside all that it computes in the phase
  double by_half = 0;  // beside half of that: sums of gradients of inputs, beside the gradients of weights
  double last = 0;     // of the last one of `beside`, after which nothing is computed

  Calls(std::span<const PlannedCall> calls, const train::Configuration& c, const StepCosts& costs) {
    for (const PlannedCall& call : calls) {
      const double seconds = costs.call(call);
      const bool is_of_layers = call.ranks == c.tp && call.span == c.tp && c.tp > 1;
      if (!call.goes_on || (is_of_layers && c.halves))
        waited += seconds;
      else if (is_of_layers)
        by_half += seconds;
      else
        beside += last = seconds;
    }
  }
  /// The seconds that the phase takes longer than `computing`.
  double added_to(double computing) const {
    return waited + std::max(0.0, beside - computing) + std::max(0.0, by_half - computing / 2);
  }
  double all() const { return waited + beside + by_half; }
};

/// What follows the last backward: calls, and the update of the weights.
struct Update {
  double computing = 0, added = 0, all_calls = 0;

  /// `backward`: the seconds of the last micro-batch's backward, beside which sums have begun.
  Update(const RankPlan& rank, double backward, const train::Configuration& c, const StepCosts& costs)
      : computing(costs.update(rank)) {
    std::vector<PlannedCall> sums, others;
    for (const PlannedCall& call : rank.update)
      (call.goes_on && call.collective != Collective::all_gather ? sums : others).push_back(call);
    const Calls of_sums(sums, c, costs), of_others(others, c, costs);
    added = std::max(of_sums.last, of_sums.all() - backward) + of_others.waited +
            std::max(of_others.last, of_others.beside - computing);
    all_calls = of_sums.all() + of_others.all();
  }
  double seconds() const { return computing + added; }
};

}  // namespace

StepTime step_time(const train::Configuration& configuration, const train::Stages& stages,
                   std::span<const RankPlan> ranks, const StepCosts& costs) {
  // Ranks that meet within their segments wait for the slowest each time. Differences of independent ranks partly cancel, like
  // the sum of independent random numbers.
  const auto seconds_waiting = [](const StageWork& work) {
    const bool meet = !work.forward.empty() || !work.backward.empty();
    return work.seconds.waiting / (meet ? 1 : std::sqrt(std::max<double>(1, static_cast<double>(work.passes))));
  };
  const auto count = static_cast<double>(parts_of_step(configuration));
  pipeline::Costs of_stages{.stages = std::vector<pipeline::StageCosts>(static_cast<size_t>(stages.count()))};
  double computing = 0, communicating = 0, hidden = 0, saved = 0;  // sums over all ranks
  StepTime time;
  for (const RankPlan& rank : ranks) {
    double last_backward = 0;
    StepPhase forward{"forward"}, backward{"backward"};
    for (const StageWork& work : rank.work) {
      const SegmentSeconds& seconds = work.seconds;
      const Calls there(work.forward, configuration, costs), back(work.backward, configuration, costs);
      const double back_computing = seconds.backward + seconds.weight_gradients;
      const double added_there = there.added_to(seconds.forward),
                   added_back = back.added_to(back_computing) + seconds_waiting(work);
      of_stages.stages[static_cast<size_t>(work.stage)] = {(seconds.forward + added_there) / count,
                                                           (seconds.backward + added_back) / count,
                                                           seconds.weight_gradients / count};
      const double kept =
          seconds_saved(configuration, work, seconds.forward + back_computing + added_there + added_back, costs);
      last_backward += back_computing / count;
      // Forward and backward share what halves save as they do calls.
      const double calls = there.all() + back.all(), kept_there = calls == 0 ? 0 : kept * there.all() / calls;
      forward.add(seconds.forward, added_there - kept_there, there.all() - added_there + kept_there);
      backward.add(back_computing, added_back - kept + kept_there,
                   back.all() + seconds_waiting(work) - added_back + kept - kept_there);
      saved += kept;
      if (work.sent == 0) continue;
      const auto along_pp = static_cast<int>(configuration.pp);
      const int span = static_cast<int>(configuration.cp * configuration.tp) * (along_pp - 1) + 1;
      of_stages.transfer = std::max(of_stages.transfer,
                                    costs.call({std::nullopt, along_pp, work.sent / configuration.microbatches, span}));
    }
    const Update update(rank, last_backward, configuration, costs);
    StepPhase after{"update"};
    after.add(update.computing, update.added, update.all_calls - update.added);
    for (const StepPhase* phase : {&forward, &backward, &after}) {
      computing += phase->computing;
      communicating += phase->communicating;
      hidden += phase->hidden;
    }
    if (time.path.empty() || update.seconds() > time.path.back().seconds()) time.path = {forward, backward, after};
  }
  time.seconds = pipeline::simulate(stages.schedule, of_stages).makespan + time.path.back().seconds() - saved;
  const double all = time.seconds * static_cast<double>(ranks.size());
  time.computing = computing / all;
  time.communicating = communicating / all;
  time.hidden = hidden / all;
  time.bubble = std::max(0.0, 1 - time.computing - time.communicating);
  return time;
}

}  // namespace adjoin::plan
