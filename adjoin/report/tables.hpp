#pragma once

#include <string>
#include <vector>

#include "adjoin/report/run.hpp"

namespace adjoin::report {

/// The functions here return tables of the page as HTML, or "" where there is nothing to show.

/// A row for each run: its state and its results.
std::string results_table(const std::vector<Run>& runs);

/// F1 of each class in the test samples, and the confusion matrix unless there are many classes.
std::string class_table(const Run& run);

/// The options: first, marked, those in which the runs differ (for a single run, those that differ from its preset), then,
/// folded, the others.
std::string configuration_tables(const std::vector<Run>& runs);

/// A row for each run: where, when and with which program it ran.
std::string machine_table(const std::vector<Run>& runs);

/// The run's name with its colour.
std::string name_html(const std::vector<Run>& runs, size_t run);

}  // namespace adjoin::report
