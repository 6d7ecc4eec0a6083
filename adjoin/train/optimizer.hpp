#pragma once

#include <span>
#include <string_view>
#include <vector>

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

/// The optimizer that a configuration describes, of these parameters; called by all `workers`, which may each have other ones.
parallel::Optimizer make_optimizer(const Configuration& configuration, std::vector<nn::Parameter> parameters,
                                   const Communicator& workers);

}  // namespace adjoin::train
