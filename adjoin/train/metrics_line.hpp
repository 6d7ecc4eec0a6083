#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoin::train {

/// The content of a line of metrics.jsonl. `numbers` has all numbers except the step, in their order, with their keys; numbers
/// that are not finite (null) are missing.
struct MetricsLine {
  std::string kind;  // "step", "validation", "evaluation"
  int64_t step = 0;
  bool skipped = false;
  std::vector<std::pair<std::string, double>> numbers;

  /// The number with this key, or `otherwise`.
  double number(std::string_view key, double otherwise) const;
};

/// Reads a line into an object, which may be reused for the next line. Returns false for a damaged line: not a JSON object, or
/// without a kind or a step. Cost: about a microsecond
bool read_metrics_line(std::string_view text, MetricsLine& line);

}  // namespace adjoin::train
