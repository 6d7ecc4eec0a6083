#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/train/configuration.hpp"

namespace adjoin::train {

/// A rule by its name, and how it is made.
struct NamedRule {
  std::string_view name;
  parallel::Rule (*make)(const Configuration& configuration);
};

/// The table of all rules, by the names of --optimizer.
std::span<const NamedRule> rules();

/// The rule that a configuration names.
parallel::Rule rule_of(const Configuration& configuration);

/// Which parameters' gradients are summed within backward (parallel::OptimizerOptions). Those of a weight that two segments share
/// are not: in stages of a pipeline that wait for each other its sums would not end.
std::function<bool(const nn::Parameter&)> sums_in_backward(const Configuration& configuration,
                                                           std::span<const models::Segment> segments);

/// The optimizer that a configuration describes, of these parameters of a model of these segments; called by all `workers`, which
/// may each have other ones.
parallel::Optimizer make_optimizer(const Configuration& configuration, std::span<const models::Segment> segments,
                                   std::vector<nn::Parameter> parameters, const Communicator& workers);

}  // namespace adjoin::train
