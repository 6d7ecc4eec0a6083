#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/plan/step_plan.hpp"

namespace adjoin::plan {

/// The step of a layout whose micro-batches have `at` tokens, computed from two steps of the same layout and ranks with fewer
/// tokens (`below` and `above`). Memory, times and the bytes of calls are extrapolated linearly; the calls are the same.
std::vector<RankPlan> extrapolated_step(std::span<const RankPlan> small, double below, std::span<const RankPlan> middle,
                                        double above, double at);

}  // namespace adjoin::plan
