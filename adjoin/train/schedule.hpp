#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// How the learning rate falls after the warm-up.
struct Schedule {
  std::string_view name;
  double (*height)(double progress);  ///< 1 at progress 0: 1 is the highest rate, 0 its end
};

/// The table of all schedules, by the names of --schedule.
std::span<const Schedule> schedules();

/// The steps of the whole training on so many samples an epoch.
int64_t total_steps(const Configuration& configuration, int64_t samples);

/// The learning rate of step `step` of `steps`, counted from 0: a linear rise over the warm-up, then the schedule down
/// towards lr * lr_end, which step `steps` would have, so that the last step learns too.
double learning_rate(const Configuration& configuration, int64_t step, int64_t steps);

}  // namespace adjoin::train
