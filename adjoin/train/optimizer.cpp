#include "adjoin/train/optimizer.hpp"

#include <algorithm>
#include <set>
#include <string>
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

std::function<bool(const nn::Parameter&)> sums_in_backward(const Configuration& configuration,
                                                           std::span<const models::Segment> segments) {
  if (configuration.zero != 2) return nullptr;
  std::set<std::string> named, shared;
  for (const models::Segment& segment : segments)
    for (const models::Part& part : segment.parts)
      if (!named.insert(part.name).second) shared.insert(part.name + ".");
  return [shared](const nn::Parameter& parameter) {
    return std::ranges::none_of(shared, [&](const std::string& part) { return parameter.name.starts_with(part); });
  };
}

parallel::Optimizer make_optimizer(const Configuration& configuration, std::span<const models::Segment> segments,
                                   std::vector<nn::Parameter> parameters, const Communicator& workers) {
  return {std::move(parameters),
          rule_of(configuration),
          {.weight_decay = configuration.weight_decay,
           .clip = configuration.clip,
           .sums_in_backward = sums_in_backward(configuration, segments),
           .workers = workers}};
}

}  // namespace adjoin::train
