#pragma once

#include <optional>
#include <string>

#include "adjoin/pipeline/simulation.hpp"

namespace adjoin::cli {

/// A schedule and how it runs.
struct PipelineReport {
  std::string name;  // the schedule's name, or its file
  pipeline::Schedule schedule{};
  pipeline::StageCosts costs_of_rank{};
  double transfer = 0;
  pipeline::Costs costs{};
  pipeline::Timeline timeline{};
  std::optional<double> formula{};  // the bubble by formula, if there is a formula
};

/// Prints the picture in 80 columns, and the numbers.
void print_pipeline(const PipelineReport& report);
void print_pipeline_json(const PipelineReport& report);

}  // namespace adjoin::cli
