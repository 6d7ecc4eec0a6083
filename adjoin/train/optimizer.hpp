#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// The rule that a configuration names.
parallel::Rule rule_of(const Configuration& configuration);

/// OptimizerOptions::zero: where ranks keep shards of weights, the optimizer sees nothing else.
int zero_of_updates(const Configuration& configuration);

/// Which parameters' gradients may be summed during backward (parallel::OptimizerOptions). A weight that two segments share is
/// excluded: the stages of a pipeline wait for each other, so its sum would never end.
std::function<bool(const nn::Parameter&)> sums_in_backward(const Configuration& configuration,
                                                           std::span<const models::Segment> segments);
/// Of which of them a rank keeps only its shard.
std::function<bool(const nn::Parameter&)> keeps_shard_of_gradient(const Configuration& configuration,
                                                                  std::span<const models::Segment> segments);

/// The optimizer that a configuration describes, for these parameters of a model with these segments. All `workers` call it;
/// each may have other parameters. `lanes`: OptimizerOptions::lanes.
parallel::Optimizer make_optimizer(const Configuration& configuration, std::span<const models::Segment> segments,
                                   std::vector<nn::Parameter> parameters, const Communicator& workers,
                                   std::optional<HeldLanes> lanes = {});

}  // namespace adjoin::train
