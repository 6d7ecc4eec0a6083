#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// How the learning rate falls after the warm-up.
struct Schedule {
  std::string_view name;
  double (*height)(double progress);  ///< of progress from 0 to 1, beginning at 1; 1 is the highest rate, 0 the final
};

/// The table of all schedules, by the names of --schedule.
std::span<const Schedule> schedules();

/// The steps of the whole training, for `samples` samples an epoch.
int64_t total_steps(const Configuration& configuration, int64_t samples);

/// The learning rate of step `step` of `steps`, counted from 0: a linear rise over the warm-up, then the schedule down to lr *
/// lr_end. That would be the rate of step `steps`, so the last step learns too.
double learning_rate(const Configuration& configuration, int64_t step, int64_t steps);

}  // namespace adjoin::train
