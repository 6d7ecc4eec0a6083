#pragma once

#include <vector>

#include "adjoin/plan/rank_plan.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task_maker.hpp"

namespace adjoin::plan {

/// `adjoin train --dry-run`: prints what `train` would do, its plan, and what a step needs of each rank. It trains nothing, and
/// writes nothing except the cache of tokens. The planned step has the longest samples. With `make` it plans your own task.
/// `as_json`: prints one JSON object instead.
/// Throws: InvalidArgument as train does before it begins, except where the machine has too few cores or the MPI job another
///         number of ranks
void dry_run(const train::Configuration& configuration, const train::TaskMaker& make = {}, bool as_json = false);

/// The plan of each rank in the step of the longest samples. Throws: InvalidArgument as plan_step does, or `make`
std::vector<RankPlan> plan_longest_step(const train::Configuration& configuration, const train::TaskMaker& make);

}  // namespace adjoin::plan
