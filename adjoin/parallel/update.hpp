#pragma once

namespace adjoin::parallel {

/// The result of a step, the same on all workers.
struct Update {
  double norm = 0;       ///< of the global gradient, before clipping
  bool skipped = false;  ///< the norm was not finite: weights and moments are unchanged
};

}  // namespace adjoin::parallel
