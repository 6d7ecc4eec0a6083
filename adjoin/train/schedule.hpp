#pragma once

#include <cstdint>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The steps of the whole training, for `samples` samples an epoch.
int64_t total_steps(const Configuration& configuration, int64_t samples);

/// The learning rate of step `step` of `steps`, counted from 0.
double learning_rate(const Configuration& c, int64_t step, int64_t steps);

}  // namespace adjoin::train
