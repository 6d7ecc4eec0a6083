#pragma once

#include <string>
#include <vector>

#include "adjoin/report/planned_memory.hpp"
#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// Runs of one page: as many as colours and dashes keep apart.
inline constexpr size_t kMostRuns = 16;

/// The report of the runs as an HTML page that refers to nothing outside. It reads without script, which shows the exact values of
/// points. `planned` has an entry a run, or none at all.
///
/// Size:   at most 2 MB for 8 runs of any length, as the number of points in a chart goes down with that of the curves
std::string page_of(const std::vector<Run>& runs, const std::vector<PlannedMemory>& planned);

/// How a page of ours begins, by which a file is known to be one.
std::string page_mark();

}  // namespace adjoin::report
