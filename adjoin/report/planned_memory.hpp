#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// The bytes that a rank needs according to a plan.
struct RankMemory {
  int rank = 0;
  int64_t highest = 0, checkpoint_copies = 0;  // as in plan::RankPlan
};

/// What a run's ranks need according to a plan, or why that is not known.
struct PlannedMemory {
  std::vector<RankMemory> ranks{};
  std::string trouble{};
};

/// Plans the step of each run as `adjoin train --dry-run` does, with the data that its configuration names. This needs the data
/// and may take long, so a separate process makes each plan, and is ended when all of them together have taken `limit`.
std::vector<PlannedMemory> planned_memory(const std::vector<Run>& runs, std::chrono::milliseconds limit);

}  // namespace adjoin::report
