#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "adjoin/cli/options.hpp"
#include "adjoin/plan/plan.hpp"

namespace adjoin::cli {

/// The options by which a plan's question is asked.
struct PlanOptions {
  std::optional<int64_t> ranks{}, hosts{};
  std::optional<std::string> memory{};
  std::optional<double> alpha{}, beta{};
  bool measures = false;

  /// Of the options that `given` has of the layout, those of the grid are refused and those of methods are kept.
  /// Throws: InvalidArgument
  plan::Question question(const GivenConfiguration& given) const;
};

/// Says that a plan is made, which may take its time.
void say_that_it_plans(const plan::Question& question);

/// --ranks and --memory, in a group of the help text.
void add_plan_options(CLI::App& command, PlanOptions& options, const std::string& group);

}  // namespace adjoin::cli
