#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The name of a rule, and a function that makes it.
struct NamedRule {
  std::string_view name;
  parallel::Rule (*make)(const Configuration& configuration);
};

/// The table of all rules, by the names of --optimizer.
std::span<const NamedRule> rules();

/// The rule that a configuration names.
parallel::Rule rule_of(const Configuration& configuration);

/// Which parameters' gradients are summed during backward (parallel::OptimizerOptions). A weight that two segments share is
/// excluded: the stages of a pipeline wait for each other, so its sum would never end.
std::function<bool(const nn::Parameter&)> sums_in_backward(const Configuration& configuration,
                                                           std::span<const models::Segment> segments);

/// The optimizer that a configuration describes, for these parameters of a model with these segments. All `workers` call it;
/// each may have other parameters.
parallel::Optimizer make_optimizer(const Configuration& configuration, std::span<const models::Segment> segments,
                                   std::vector<nn::Parameter> parameters, const Communicator& workers);

}  // namespace adjoin::train
