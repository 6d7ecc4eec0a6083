#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// A run's line in a chart.
struct Curve {
  size_t run = 0;  // its place among the runs, which gives its colour
  const Series* series = nullptr;
};

/// Curves of several runs over one another, along the steps.
struct Chart {
  std::string title;  // "training loss"
  std::vector<Curve> curves{};
};

/// Charts with curves of the same kind.
struct ChartGroup {
  std::string title;  // "" where there is one group alone
  std::vector<Chart> charts{};
};

/// All charts of some runs: those of losses and measures, in a group for each set of runs that have a measure in common; and those
/// of what all runs have. A number of which no run has two values has no chart.
std::vector<ChartGroup> charts_of(const std::vector<Run>& runs);

/// A chart as it stands in a page: the picture, and for the script what it shows and where.
struct DrawnChart {
  std::string svg;
  nlohmann::ordered_json data;
};

/// Draws it with at most 2 points in each of `parts` parts of the axis of steps. Curves of many points are drawn thin, with their
/// means over them.
DrawnChart draw(const Chart& chart, const std::vector<Run>& runs, int parts);

/// The style class of a run's colour.
std::string class_of_run(size_t run);

}  // namespace adjoin::report
