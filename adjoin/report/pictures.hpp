#pragma once

#include <string>
#include <vector>

#include "adjoin/report/run.hpp"
#include "adjoin/train/step_plan.hpp"

namespace adjoin::report {

/// At most so many ranks are drawn of a run, each as a bar, and as a box of its layout.
inline constexpr size_t kMostBars = 32, kMostBoxes = 256;

/// What the ranks of a run spent their time on, a bar a rank, each as long as the longest. "" where summary.json does not say it.
std::string draw_times(const Run& run);

/// The most memory that each rank's tensors took, a bar a rank, beside what was planned for it where there is a plan; "" where
/// summary.json does not say it.
std::string draw_memory(const Run& run, const std::vector<train::RankPlan>& plan);

/// Which rank stands where on the grid: a box a rank, in the colour of its coordinate along pp; a picture for each part of the
/// batch. "" where the configuration is not known or there are more than kMostBoxes ranks.
std::string draw_layout(const Run& run);

/// The measured actions of a step of the pipeline; "" where summary.json has none or they are damaged.
std::string draw_pipeline(const Run& run);

/// "12.3 MiB"
std::string bytes_text(double bytes);

}  // namespace adjoin::report
