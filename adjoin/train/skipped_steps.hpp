#pragma once

#include <cstdint>

namespace adjoin::train {

/// The steps of a run that changed nothing, since a gradient was not finite.
struct SkippedSteps {
  int64_t all = 0;
  int64_t in_a_row = 0;  // up to now, without those that only lowered the loss scale of fp16

  /// Counts step `step`, the first being 1: whether it was skipped, and whether that has lowered the loss scale.
  /// Throws: Error at the tenth in a row
  void count(int64_t step, bool skipped, bool lowered_scale);

  bool operator==(const SkippedSteps&) const = default;
};

}  // namespace adjoin::train
