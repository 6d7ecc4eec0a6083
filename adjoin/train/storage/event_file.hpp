#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "adjoin/train/metrics_line.hpp"
#include "adjoin/train/storage/output_file.hpp"

namespace adjoin::train {

/// The numbers of metrics.jsonl as TensorBoard reads them: a file of events, each with a step and its scalars: "train/loss",
/// "validation/loss", "test/loss" and so on.
///
/// Source: TensorFlow's core/lib/io/record_writer.h (a record is its length as uint64, a masked CRC32C of that, the bytes, and a
///         masked CRC32C of them; numbers are little-endian), core/util/event.proto and core/framework/summary.proto
class EventFile {
 public:
  /// Makes a new file in the folder, which is made too, with the events of the lines of `metrics`, whose last one was just
  /// written; and then removes the folder's earlier ones. So each step stands once, however often a run was resumed. When a line
  /// was written follows from the seconds that the steps behind it took.
  /// Throws: IoError
  EventFile(const std::filesystem::path& folder, const std::filesystem::path& metrics);

  /// Appends the event of a line that was written now. Throws: IoError
  void add(const MetricsLine& line);

 private:
  std::optional<OutputFile> file_;
};

/// CRC32C (Castagnoli), as iSCSI has it (RFC 3720, appendix B.4).
uint32_t crc32c(std::string_view bytes);

}  // namespace adjoin::train
