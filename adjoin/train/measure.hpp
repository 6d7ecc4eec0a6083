#pragma once

#include <string>

namespace adjoin::train {

/// A number that tells how good a model is.
struct Measure {
  std::string name{};  ///< "accuracy": its key in metrics.jsonl, and behind "test_" in summary.json
  double value = 0;
  bool is_part = false;  ///< of all, shown in per cent
  bool operator==(const Measure&) const = default;
};

/// "bits per byte" of "bits_per_byte".
std::string spoken(const Measure& measure);

/// "87.55 %" or "0.2850".
std::string to_string(const Measure& measure);

}  // namespace adjoin::train
