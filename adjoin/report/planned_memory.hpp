#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "adjoin/plan/step_plan.hpp"
#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// What a run's ranks need according to a plan, or why that is not known.
struct PlannedMemory {
  std::vector<plan::RankPlan> ranks{};  // only `rank`, `highest` and `checkpoint_copies` are set
  std::string trouble{};
};

/// Plans the step of each run as `adjoin train --dry-run` does, with the data that its configuration names. This needs the data
/// and may take long, so a separate process makes each plan, and is ended when all of them together have taken `limit`.
std::vector<PlannedMemory> planned_memory(const std::vector<Run>& runs, std::chrono::milliseconds limit);

}  // namespace adjoin::report
