#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// A run's line in a chart.
struct Curve {
  size_t run = 0;  // its place among the runs, which decides its colour
  const Series* series = nullptr;
};

/// Curves of several runs in one picture, along the steps.
struct Chart {
  std::string title;  // "training loss"
  std::vector<Curve> curves{};
};

/// Charts with curves of the same kind.
struct ChartGroup {
  std::string title;  // "" where there is only one group
  std::vector<Chart> charts{};
};

/// All charts of some runs: losses and measures, in one group for each set of runs with a common measure; and the numbers that
/// all runs have. A number has no chart if no run has two values of it.
std::vector<ChartGroup> charts_of(const std::vector<Run>& runs);

/// A chart in a page: the picture, and for the script what is shown where.
struct DrawnChart {
  std::string svg;
  nlohmann::ordered_json data;
};

/// Draws it with at most 2 points in each of `parts` parts of the step axis. Curves with many points are drawn thin, with their
/// means on top.
DrawnChart draw(const Chart& chart, const std::vector<Run>& runs, int parts);

/// The CSS class for a run's colour.
std::string class_of_run(size_t run);

}  // namespace adjoin::report
