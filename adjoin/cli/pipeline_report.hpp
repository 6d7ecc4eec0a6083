#pragma once

#include <optional>
#include <string>

#include "adjoin/cli/output.hpp"
#include "adjoin/pipeline/simulation.hpp"

namespace adjoin::cli {

/// A schedule and how it runs.
struct SimulatedPipeline {
  std::string name;  // the schedule's name, or its file
  pipeline::Schedule schedule{};
  pipeline::StageCosts costs_of_rank{};
  double transfer = 0;
  pipeline::Costs costs{};
  pipeline::Timeline timeline{};
  std::optional<double> formula{};  // the bubble by formula, if there is a formula
};

/// The picture in 80 columns, and the numbers.
Report report_of(const SimulatedPipeline& pipeline, bool as_json);

}  // namespace adjoin::cli
