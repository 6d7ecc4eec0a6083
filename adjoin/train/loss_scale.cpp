#include "adjoin/train/loss_scale.hpp"

namespace adjoin::train {
namespace {

constexpr double kLeast = 1;  // where gradients overflow without any scale, a lower one is no remedy
constexpr int64_t kStepsToGrow = 2000;

}  // namespace

bool LossScale::adapt(bool overflowed) {
  if (!overflowed) {
    if (++good_steps < kStepsToGrow) return false;
    *this = {.value = 2 * value};
    return false;
  }
  const bool is_lowered = value > kLeast;
  *this = {.value = is_lowered ? value / 2 : value};
  return is_lowered;
}

}  // namespace adjoin::train
