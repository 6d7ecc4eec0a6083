#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/plan/planned_run.hpp"
#include "adjoin/plan/segment_needs.hpp"
#include "adjoin/plan/step_plan.hpp"

namespace adjoin::plan {

/// What an update needs of a rank.
struct OptimizerNeeds {
  int64_t moments = 0;  ///< bytes
  int64_t highest = 0;  ///< the most bytes during an update, gradients and moments included
  int64_t updated = 0;  ///< elements
  double solved = 0;    ///< as RankPlan::solved_matrices
  std::vector<PlannedCall> calls = {};
};

/// The needs of a rank's optimizer, found with a rule that changes nothing. `whole`: the same parameters as no rank shards them.
OptimizerNeeds needs_of_optimizer(const PlannedRun& run, const SilentRank& rank, std::vector<nn::Parameter> parameters,
                                  const std::vector<nn::Parameter>& whole, const MicroBatches::OfRank& of_rank);

/// In which ways the stages at a coordinate along pp use a weight. One that several segments share is looked up in the first alone.
std::set<WeightUse> uses_at(const train::Stages& stages, int pp, const std::string& parameter);

/// Whether a weight is of experts that ranks along their axis share.
bool is_of_experts(const PlannedRun& run, const nn::Parameter& parameter);

}  // namespace adjoin::plan
