#pragma once

#include <functional>
#include <limits>
#include <span>

#include "adjoin/plan/rank_plan.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/train/stages.hpp"

namespace adjoin::plan {

/// The costs of the parts of a step.
struct StepCosts {
  std::function<double(const PlannedCall& call)> call;         ///< seconds
  std::function<double(const RankPlan& rank)> update;          ///< seconds of its optimizer's update, without its calls
  int64_t ranks_a_host = std::numeric_limits<int64_t>::max();  ///< where it is 1, halves compute beside calls
};

/// The time of a step. `ranks` has the plan of one rank at each coordinate along pp, in order, with the seconds of its
/// segments. The time is that of the pipeline's simulation, with the mean of each stage's micro-batches, plus that of the
/// slowest rank's optimizer. Of --halves, calls of tensor-parallel ranks and computing go on at once between hosts, but for the first
/// or last piece of a pair.
StepTime step_time(const train::Configuration& configuration, const train::Stages& stages,
                   std::span<const RankPlan> ranks, const StepCosts& costs);

}  // namespace adjoin::plan
