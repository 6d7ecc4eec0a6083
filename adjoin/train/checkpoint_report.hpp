#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace adjoin::train {

/// The report about one checkpoint.
struct CheckpointReport {
  int64_t step = 0;
  std::filesystem::path folder;
  int64_t bytes = 0;   // of all its files
  std::string layout;  // of the run that saved it: "dp 2, tp 4"; "" if it does not say
  /// One number of weights and moments, 16 hexadecimal digits, the same in every layout; "" if its files have no checksums, as
  /// those of early versions.
  std::string hash;
  std::string damage;  // what is wrong with it, in one line; "" if nothing is
};

/// The checkpoints of a run, the newest first. The files that a run needs are opened and their headers checked; with `verifies`
/// the tensors are also read and compared with their checksums, if the files have any.
/// Throws: InvalidArgument where there are no checkpoints; IoError
std::vector<CheckpointReport> report_checkpoints(const std::filesystem::path& run, bool verifies);

}  // namespace adjoin::train
