#include "adjoin/train/optimizer.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "adjoin/parallel/muon.hpp"

namespace adjoin::train {

parallel::Rule rule_of(const Configuration& configuration) {
  switch (configuration.optimizer) {
    case OptimizerRule::sgd:
      return parallel::sgd({.momentum = configuration.momentum});
    case OptimizerRule::muon: {
      const bool in_bf16 = configuration.precision == Precision::bf16;
      return parallel::muon({.type = in_bf16 ? std::optional(at::kBFloat16) : std::nullopt});
    }
    default:
      return parallel::adamw();
  }
}

std::function<bool(const nn::Parameter&)> sums_in_backward(const Configuration& configuration,
                                                           std::span<const models::Segment> segments,
                                                           bool spans_hosts) {
  const bool beside_backward = spans_hosts && configuration.zero == 1 && configuration.microbatches == 1;
  if (configuration.zero != 2 && !beside_backward) return nullptr;
  std::set<std::string> named, shared;
  for (const models::Segment& segment : segments)
    for (const models::ModuleRecipe& part : segment.parts)
      if (!named.insert(part.name).second) shared.insert(part.name + ".");
  return [shared, beside_backward](const nn::Parameter& parameter) {
    // Small ones share messages in stage 1, and so the order in which the norm is added up.
    if (beside_backward && !parallel::travels_alone(parameter)) return false;
    return std::ranges::none_of(shared, [&](const std::string& part) { return parameter.name.starts_with(part); });
  };
}

parallel::Optimizer make_optimizer(const Configuration& configuration, std::span<const models::Segment> segments,
                                   std::vector<nn::Parameter> parameters, const Communicator& workers) {
  return {std::move(parameters),
          rule_of(configuration),
          {.weight_decay = configuration.weight_decay,
           .clip = configuration.clip,
           .sums_in_backward = sums_in_backward(configuration, segments, workers.backend()->spans_hosts()),
           .workers = workers}};
}

}  // namespace adjoin::train
