#pragma once

#include <string>
#include <vector>

namespace adjoin::report {

/// Writes the report of the runs in these folders into a file, and says on standard output what it is about. An earlier report is
/// replaced.
/// Throws: InvalidArgument where a folder holds no run, is given twice, or there are none or more than kMostRuns; where the file is
///         a folder or is there and is no report; IoError where it cannot be written
void write_report(const std::vector<std::string>& folders, const std::string& file);

}  // namespace adjoin::report
