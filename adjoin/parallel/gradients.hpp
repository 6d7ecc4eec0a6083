#pragma once

#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// Sums each parameter's gradient over the workers that hold copies of it, so that any `torch::optim` optimizer then updates
/// the copies alike. Called by all workers after backward; a missing gradient counts as zeros.
/// Cost:   an all-reduce of the gradients, small ones together
/// The first call for a parameter compares its copies, which would never become equal if they did not begin equal.
/// Throws: InvalidArgument as check_copies, and for a parameter without a layout, which it names: nn::parameters_of(module,
///         grid) gives it one
void sum_gradients(const torch::nn::Module& module);
void sum_gradients(const std::vector<nn::Parameter>& parameters);

}  // namespace adjoin::parallel
