#include "adjoin/train/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::train {
namespace {

constexpr Schedule kSchedules[] = {
    {"cosine", [](double progress) { return (1 + std::cos(std::numbers::pi * progress)) / 2; }},
    {"linear", [](double progress) { return 1 - progress; }},
    {"constant", [](double) { return 1.0; }},
};

const Schedule& schedule_of(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kSchedules), std::end(kSchedules), [&](const Schedule& s) { return s.name == name; });
  if (found == std::end(kSchedules)) throw InternalError("schedule " + std::string(name) + " is not in the table");
  return *found;
}

}  // namespace

std::span<const Schedule> schedules() {
  return kSchedules;
}

int64_t total_steps(const Configuration& c, int64_t samples) {
  return c.steps > 0 ? c.steps : (samples + c.batch - 1) / c.batch * c.epochs;
}

double learning_rate(const Configuration& configuration, int64_t step, int64_t steps) {
  const double warm_up = configuration.warmup * static_cast<double>(steps);
  const auto now = static_cast<double>(step);
  if (now + 1 < warm_up) return configuration.lr * (now + 1) / warm_up;
  const double progress = now > warm_up ? (now - warm_up) / (static_cast<double>(steps) - warm_up) : 0;
  const double height = schedule_of(configuration.schedule).height(progress);
  return configuration.lr * (configuration.lr_end + (1 - configuration.lr_end) * height);
}

}  // namespace adjoin::train
