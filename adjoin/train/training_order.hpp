#pragma once

#include <cstdint>

#include "adjoin/data/sampler.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task.hpp"
#include "adjoin/train/validation.hpp"

namespace adjoin::train {

/// The training samples of a task, as a configuration divides them.
HeldOut hold_out(const Configuration& configuration, const Task& task);

/// Gives the samples of each step, as indices into `samples.train`.
data::Sampler make_sampler(const Configuration& configuration, const Task& task, const HeldOut& samples);

/// Throws: InvalidArgument for a batch of the training, a validation or the test part that the model does not take, as it takes one
///         number of samples alone; and for micro-batches of training without samples
void check_batches(const Configuration& configuration, const Task& task);

/// A hash of everything that decides the order of samples in an epoch.
uint64_t order_of(const Configuration& configuration, const Task& task, const HeldOut& samples);

}  // namespace adjoin::train
