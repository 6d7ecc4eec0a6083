#pragma once

#include <string>
#include <vector>

#include "adjoin/report/planned_memory.hpp"
#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// The most ranks of a run that are drawn as bars, and as boxes of its layout.
inline constexpr size_t kMostBars = 32, kMostBoxes = 256;

/// How the ranks of a run spent their time, as one bar for each rank, all of equal length. "" where summary.json does not say
/// it.
std::string draw_times(const Run& run);

/// The most memory of each rank's tensors, as one bar for each rank, beside the planned memory if there is a plan; "" where
/// summary.json does not say it.
std::string draw_memory(const Run& run, const std::vector<RankMemory>& plan);

/// The place of each rank on the grid: a box for each rank, in the colour of its coordinate along pp; a picture for each part
/// of the batch. "" where the configuration is not known or there are more than kMostBoxes ranks.
std::string draw_layout(const Run& run);

/// The measured actions of a step of the pipeline; "" where summary.json has none or they are damaged.
std::string draw_pipeline(const Run& run);

/// "12.3 MiB"
std::string bytes_text(double bytes);

}  // namespace adjoin::report
