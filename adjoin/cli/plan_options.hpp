#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "adjoin/cli/options.hpp"
#include "adjoin/plan/plan.hpp"

namespace adjoin::cli {

/// The options that make up a plan's request.
struct PlanOptions {
  std::optional<int64_t> ranks{}, hosts{};
  std::optional<std::string> memory{};
  std::optional<double> alpha{}, beta{};
  bool measures = false;

  /// The plan's request. Of the layout options in `given`, those of the grid are refused and those of methods are kept.
  /// Throws: InvalidArgument
  plan::PlanRequest request(const GivenConfiguration& given) const;
};

/// Prints that a plan is being made, which may take a while.
void say_that_it_plans(const plan::PlanRequest& request);

/// Adds --ranks and --memory to a group of the help text.
void add_plan_options(Program& program, CLI::App& command, PlanOptions& options, const std::string& group);

}  // namespace adjoin::cli
