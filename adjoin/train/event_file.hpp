#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "adjoin/store/output_file.hpp"
#include "adjoin/train/metrics_line.hpp"

namespace adjoin::train {

/// The numbers of metrics.jsonl for TensorBoard: a file of events, each with a step and its scalars: "train/loss",
/// "validation/loss", "test/loss" and so on.
///
/// Source: TensorFlow's core/lib/io/record_writer.h (a record is its length as uint64, a masked CRC32C of that, the bytes, and a
///         masked CRC32C of them; numbers are little-endian), core/util/event.proto and core/framework/summary.proto
class EventFile {
 public:
  /// Makes the folder and a new file in it, with the events of the lines of `metrics`, and then removes the folder's earlier
  /// files. So each step is there once, however often a run was resumed. The last line of `metrics` must just have been
  /// written; the times of earlier lines are computed from the seconds that the steps after them took.
  /// Throws: IoError
  EventFile(const std::filesystem::path& folder, const std::filesystem::path& metrics);

  /// Appends the event of a line that was written just now. Throws: IoError
  void add(const MetricsLine& line);

 private:
  std::optional<OutputFile> file_;
};

/// CRC32C (Castagnoli), as in iSCSI (RFC 3720, appendix B.4).
uint32_t crc32c(std::string_view bytes);

}  // namespace adjoin::train
