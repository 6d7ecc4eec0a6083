#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// The state of an optimizer of torch::optim, as pieces with the layouts of their parameters: for SGD "momentum_buffer.NAME",
/// for Adam and AdamW "exp_avg.NAME", "exp_avg_sq.NAME", with amsgrad "max_exp_avg_sq.NAME", for Adagrad "sum.NAME", for
/// RMSprop "square_avg.NAME", with momentum "momentum_buffer.NAME", centered "grad_avg.NAME", and for all except SGD the number
/// of steps of each parameter, "step.NAME". Moments of a parameter that was not updated yet are zeros. The optimizer, which
/// must outlive the pieces, continues with values written into them. Called by all workers of the parameters' world.
/// Throws: InvalidArgument for other optimizers, and for SGD with dampening
std::vector<nn::Parameter> state_of(torch::optim::Optimizer& optimizer, const std::vector<nn::Parameter>& parameters);

}  // namespace adjoin::parallel
