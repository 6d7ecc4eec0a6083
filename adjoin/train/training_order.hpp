#pragma once

#include <cstdint>

#include "adjoin/data/sampler.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/task.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::train {

/// Gives the samples of each step, as indices into `samples.train`.
data::Sampler make_sampler(const Configuration& configuration, const Task& task, const HeldOut& samples);

/// A hash of what decides in which order an epoch takes its samples.
uint64_t order_of(const Configuration& configuration, const Task& task, const HeldOut& samples);

}  // namespace adjoin::train
