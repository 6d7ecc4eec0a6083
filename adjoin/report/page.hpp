#pragma once

#include <string>
#include <vector>

#include "adjoin/report/planned_memory.hpp"
#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// The most runs on one page: as many as colours and dashes can distinguish.
inline constexpr size_t kMostRuns = 16;

/// The report of the runs as an HTML page that needs no other file. It can be read without its script, which shows the exact
/// values of points. `planned` has an entry for each run, or is empty.
///
/// Size:   at most 2 MB for 8 runs of any length, because a chart with more curves has fewer points in each
std::string page_of(const std::vector<Run>& runs, const std::vector<PlannedMemory>& planned);

/// The beginning of our pages, by which a file is recognised as one.
std::string page_mark();

}  // namespace adjoin::report
