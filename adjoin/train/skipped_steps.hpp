#pragma once

#include <cstdint>

namespace adjoin::train {

/// Counts the steps of a run that changed nothing because a gradient was not finite.
struct SkippedSteps {
  int64_t all = 0;
  int64_t in_a_row = 0;  // so far, without those that only lowered the loss scale of fp16

  /// Counts step `step`, from 1: whether it was skipped, and whether that has lowered the loss scale.
  /// Throws: Error at the tenth in a row
  void count(int64_t step, bool skipped, bool lowered_scale);

  bool operator==(const SkippedSteps&) const = default;
};

/// The factor of an fp16 loss for backward, so that small gradients are not rounded to zero. It is as large as possible without
/// an overflow of gradients. It is the same on all workers, since all know whether a gradient was not finite.
/// Source: Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2
struct LossScale {
  double value = 65536;
  int64_t good_steps = 0;  // since the value last changed

  /// To call after a step: halves the value, to 1 at least, where a gradient was not finite, and doubles it after 2,000 steps
  /// without that. Returns whether it was lowered, which may solve the problem.
  bool adapt(bool overflowed);

  bool operator==(const LossScale&) const = default;
};

}  // namespace adjoin::train
