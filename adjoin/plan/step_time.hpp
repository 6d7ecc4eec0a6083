#pragma once

#include <functional>
#include <span>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/stages.hpp"
#include "adjoin/train/step_plan.hpp"

namespace adjoin::plan {

/// Of a step: its seconds, and the parts of all ranks' time in them, which add up to 1.
struct StepTime {
  double seconds = 0;
  double computing = 0, communicating = 0, bubble = 0;  ///< bubble: a pipeline's idle ranks
};

/// What steps are made of.
struct StepCosts {
  std::function<double(const train::PlannedCall& call)> call;  ///< seconds
  std::function<double(int64_t elements)> update;              ///< seconds of an optimizer, without its calls
};

/// The time of a step of which one rank at each coordinate along pp is planned, in that order, with the seconds of its segments:
/// the pipeline's simulation with the mean of each stage's micro-batches, and then the slowest rank's optimizer.
StepTime step_time(const train::Configuration& configuration, const train::Stages& stages,
                   std::span<const train::RankPlan> ranks, const StepCosts& costs);

}  // namespace adjoin::plan
