#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoin::train {

/// What a line of metrics.jsonl says. `numbers` are all of them but the step, in their order, with their keys; what is no finite
/// number (null) is not among them.
struct MetricsLine {
  std::string kind;  // "step", "validation", "evaluation"
  int64_t step = 0;
  bool skipped = false;
  std::vector<std::pair<std::string, double>> numbers;

  /// The number of this key, or `otherwise`.
  double number(std::string_view key, double otherwise) const;
};

/// Reads a line, into an object that may be used for the next one again. False where it is damaged: no JSON object, without a kind
/// or without a step. Cost: about a microsecond
bool read_metrics_line(std::string_view text, MetricsLine& line);

}  // namespace adjoin::train
