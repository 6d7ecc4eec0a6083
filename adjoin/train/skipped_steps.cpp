#include "adjoin/train/skipped_steps.hpp"

#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/common_cause.hpp"

namespace adjoin::train {
namespace {

constexpr int64_t kMostInARow = 10;
constexpr double kLeastScale = 1;  // if gradients overflow at this scale, a lower one does not help
constexpr int64_t kStepsToGrow = 2000;

}  // namespace

void SkippedSteps::count(int64_t step, bool skipped, bool lowered_scale) {
  if (!skipped) {
    in_a_row = 0;
    return;
  }
  all += 1;
  if (lowered_scale) return;
  if (++in_a_row >= kMostInARow)
    throw Common<Error>("step " + std::to_string(step) + ": the gradients of " + std::to_string(kMostInARow) +
                        " steps in a row were not finite; a lower --lr may help");
}

bool LossScale::adapt(bool overflowed) {
  if (!overflowed) {
    if (++good_steps < kStepsToGrow) return false;
    *this = {.value = 2 * value};
    return false;
  }
  const bool is_lowered = value > kLeastScale;
  *this = {.value = is_lowered ? value / 2 : value};
  return is_lowered;
}

}  // namespace adjoin::train
