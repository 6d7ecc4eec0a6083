#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// What an optimizer of torch::optim remembers, as pieces that lie as their parameters do: of SGD "momentum_buffer.NAME", of Adam
/// and AdamW "exp_avg.NAME", "exp_avg_sq.NAME", with amsgrad "max_exp_avg_sq.NAME", of Adagrad "sum.NAME", of RMSprop
/// "square_avg.NAME", with momentum "momentum_buffer.NAME", centered "grad_avg.NAME", and of all but SGD the steps of each
/// parameter, "step.NAME". Moments of a parameter that it has not updated yet are zeros. What is written into the pieces the optimizer
/// goes on with, which outlives them. Called by all workers of the parameters' world.
/// Throws: InvalidArgument for another optimizer, and SGD with dampening
std::vector<nn::Parameter> state_of(torch::optim::Optimizer& optimizer, const std::vector<nn::Parameter>& parameters);

}  // namespace adjoin::parallel
