#include "adjoin/parallel/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace adjoin::parallel {

double LearningRate::at(int64_t step) const {
  const auto now = static_cast<double>(step);
  if (now + 1 < warmup) return peak * (now + 1) / warmup;
  if (schedule == RateSchedule::constant) return peak;
  const double progress = now > warmup ? std::min(1.0, (now - warmup) / (steps - warmup)) : 0;
  const double left = schedule == RateSchedule::linear ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
  return peak * (end + (1 - end) * left);
}

}  // namespace adjoin::parallel
