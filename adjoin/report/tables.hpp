#pragma once

#include <string>
#include <vector>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// The parts of the page that are tables, as HTML; "" where there is nothing to tell.

/// A row a run: how it stands and how good it became.
std::string results_table(const std::vector<Run>& runs);

/// The options: first those in which the runs differ (of one run, those that are not what its preset gives), marked, then, folded
/// away, the others.
std::string configuration_tables(const std::vector<Run>& runs);

/// A row a run: where, when and by which program.
std::string machine_table(const std::vector<Run>& runs);

/// The run's name with its colour.
std::string name_html(const std::vector<Run>& runs, size_t run);

}  // namespace adjoin::report
