#pragma once

#include <torch/optim/optimizer.h>

#include <string>
#include <vector>

#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/optimizer.hpp"

namespace adjoin::parallel {

/// How a moment of a parameter is called among others: "first.NAME".
std::string moment_name(const std::string& moment, const nn::Parameter& parameter);

/// An optimizer's moments as global tensors, with AdamW "first.NAME" and "second.NAME" of each parameter, and the updates
/// that it has made, "steps", on one rank; nothing elsewhere. Called by all workers of the parameters' world.
nn::State gather_moments(const Optimizer& optimizer, int rank = 0);

/// An optimizer of the same rule and parameters, on whatever layouts, takes over what gather_moments gave.
/// Throws: InvalidArgument on all workers as nn::scatter_state
void scatter_moments(const nn::State& state, Optimizer& optimizer, int rank = 0);

/// The same of an optimizer of torch::optim: SGD ("momentum_buffer.NAME"), Adam or AdamW ("exp_avg.NAME", "exp_avg_sq.NAME"
/// and with amsgrad "max_exp_avg_sq.NAME"), whose moments lie as their parameters do, and with Adam the steps of each
/// parameter, "step.NAME". Those of a parameter that it has not updated yet are zeros.
/// Throws: InvalidArgument for another optimizer
nn::State gather_moments(torch::optim::Optimizer& optimizer, const std::vector<nn::Parameter>& parameters,
                         int rank = 0);
void scatter_moments(const nn::State& state, torch::optim::Optimizer& optimizer,
                     const std::vector<nn::Parameter>& parameters, int rank = 0);

}  // namespace adjoin::parallel
