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

/// What an fp16 loss is multiplied by on its way back, so that small gradients are not rounded to zero: as large as it may
/// be without that they overflow. The same on all workers, since all know alike whether a gradient was finite.
/// Source: Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2
struct LossScale {
  double value = 65536;
  int64_t good_steps = 0;  // since the value last changed

  /// After a step: halves the value where a gradient was not finite, to 1 at the least, and doubles it after 2,000 steps
  /// without. Returns whether it was lowered, which may be the remedy.
  bool adapt(bool overflowed);

  bool operator==(const LossScale&) const = default;
};

}  // namespace adjoin::train
