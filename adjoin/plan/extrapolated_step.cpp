#include "adjoin/plan/extrapolated_step.hpp"

#include <algorithm>
#include <cmath>

namespace adjoin::plan {

std::vector<RankPlan> extrapolated_step(std::span<const RankPlan> small, double below, std::span<const RankPlan> middle,
                                        double above, double at) {
  const double part = (at - below) / std::max(above - below, 1.0);
  // Measurement noise must not make a larger step faster.
  const auto seconds = [&](double& to, double from) { to = from + std::max(0.0, to - from) * part; };
  const auto bytes = [&](int64_t& to, int64_t from) {
    to = std::max<int64_t>(0, from + std::llround(static_cast<double>(to - from) * part));
  };
  const auto calls = [&](std::vector<PlannedCall>& to, const std::vector<PlannedCall>& from) {
    for (size_t i = 0; i < std::min(to.size(), from.size()); ++i) bytes(to[i].bytes, from[i].bytes);
  };
  std::vector<RankPlan> large(middle.begin(), middle.end());
  for (size_t i = 0; i < large.size(); ++i) {
    RankPlan& rank = large[i];
    bytes(rank.highest, small[i].highest);
    bytes(rank.activations, small[i].activations);
    // In small steps gradients may need more than activations, which says nothing about large ones.
    rank.highest = std::max(rank.highest, rank.weights + rank.moments + rank.activations);
    for (size_t j = 0; j < rank.work.size(); ++j) {
      StageWork& work = rank.work[j];
      const StageWork& from = small[i].work[j];
      for (const auto each : kPartsOfSeconds) seconds(work.seconds.*each, from.seconds.*each);
      calls(work.forward, from.forward);
      calls(work.backward, from.backward);
      bytes(work.sent, from.sent);
    }
  }
  return large;
}

}  // namespace adjoin::plan
