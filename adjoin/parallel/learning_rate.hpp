#pragma once

#include <cstdint>

namespace adjoin::parallel {

/// How the rate falls after the warm-up: by half a cosine, by a line, or not.
enum class RateSchedule : uint8_t { cosine, linear, constant };

struct LearningRate {
  double peak = 0;
  RateSchedule schedule = RateSchedule::cosine;
  double warmup = 0;  ///< steps of a linear rise to the peak
  double steps = 0;   ///< of the whole training; a constant rate has no end
  double end = 0;     ///< which part of the peak step `steps` would have, so the last step learns too

  /// That of a step, counted from 0; at and after step `steps` that of the end.
  double at(int64_t step) const;
};

}  // namespace adjoin::parallel
