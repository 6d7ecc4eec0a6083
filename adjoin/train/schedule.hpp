#pragma once

#include <cstdint>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The steps of the whole training, for `samples` samples an epoch.
int64_t total_steps(const Configuration& configuration, int64_t samples);

/// The learning rate of step `step` of `steps`, counted from 0: a linear rise over the warm-up, then the schedule down to lr *
/// lr_end. That would be the rate of step `steps`, so the last step learns too.
double learning_rate(const Configuration& configuration, int64_t step, int64_t steps);

}  // namespace adjoin::train
