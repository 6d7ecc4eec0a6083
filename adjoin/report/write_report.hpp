#pragma once

#include <string>
#include <vector>

namespace adjoin::report {

/// Writes the report of the runs in these folders into a file, and prints what the report covers. An earlier report is
/// replaced.
/// Throws: InvalidArgument where a folder holds no run or is given twice, where there are none or more than kMostRuns, and
///         where the file is a folder or an existing file that is not a report; IoError where it cannot be written
void write_report(const std::vector<std::string>& folders, const std::string& file);

}  // namespace adjoin::report
