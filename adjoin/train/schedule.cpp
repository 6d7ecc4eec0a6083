#include "adjoin/train/schedule.hpp"

namespace adjoin::train {

int64_t total_steps(const Configuration& c, int64_t samples) {
  return c.steps > 0 ? c.steps : (samples + c.batch - 1) / c.batch * c.epochs;
}

double learning_rate(const Configuration& c, int64_t step, int64_t steps) {
  const auto all = static_cast<double>(steps);
  return parallel::LearningRate{c.lr, c.schedule, c.warmup * all, all, c.lr_end}.at(step);
}

}  // namespace adjoin::train
