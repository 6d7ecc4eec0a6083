#pragma once

#include <string>

namespace adjoin::train {

/// A number that says how good a model is.
struct Measure {
  std::string name{};  ///< "accuracy": its key in metrics.jsonl; in summary.json "test_" stands before it
  double value = 0;
  bool is_part = false;  ///< a fraction, shown in per cent
  bool operator==(const Measure&) const = default;
};

/// "bits per byte" for "bits_per_byte".
std::string spoken(const Measure& measure);

/// "87.55 %" or "0.2850".
std::string to_string(const Measure& measure);

}  // namespace adjoin::train
