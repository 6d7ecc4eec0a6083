#include "adjoin/train/schedule.hpp"

#include <cmath>
#include <numbers>

namespace adjoin::train {
namespace {

/// How much of the learning rate is left at a progress from 0 to 1, beginning at 1.
double height(RateSchedule schedule, double progress) {
  if (schedule == RateSchedule::constant) return 1;
  return schedule == RateSchedule::linear ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace

int64_t total_steps(const Configuration& c, int64_t samples) {
  return c.steps > 0 ? c.steps : (samples + c.batch - 1) / c.batch * c.epochs;
}

double learning_rate(const Configuration& configuration, int64_t step, int64_t steps) {
  const double warm_up = configuration.warmup * static_cast<double>(steps);
  const auto now = static_cast<double>(step);
  if (now + 1 < warm_up) return configuration.lr * (now + 1) / warm_up;
  const double progress = now > warm_up ? (now - warm_up) / (static_cast<double>(steps) - warm_up) : 0;
  return configuration.lr *
         (configuration.lr_end + (1 - configuration.lr_end) * height(configuration.schedule, progress));
}

}  // namespace adjoin::train
