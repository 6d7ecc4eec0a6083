#include "adjoin/train/optimizer.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::train {
namespace {

constexpr NamedRule kRules[] = {
    {"adamw", [](const Configuration&) { return parallel::adamw(); }},
    {"sgd", [](const Configuration& c) { return parallel::sgd({.momentum = c.momentum}); }},
};

}  // namespace

std::span<const NamedRule> rules() {
  return kRules;
}

parallel::Rule rule_of(const Configuration& configuration) {
  const auto* found = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const NamedRule& rule) { return rule.name == configuration.optimizer; });
  if (found == std::end(kRules)) throw InternalError("optimizer " + configuration.optimizer + " is not in the table");
  return found->make(configuration);
}

parallel::Optimizer make_optimizer(const Configuration& configuration, std::vector<nn::Parameter> parameters,
                                   const Communicator& workers) {
  return {std::move(parameters),
          rule_of(configuration),
          {.weight_decay = configuration.weight_decay, .clip = configuration.clip, .workers = workers}};
}

}  // namespace adjoin::train
