#include "adjoin/plan/rounds.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace adjoin::plan {
namespace {

constexpr size_t kRounds = 3, kMostRounds = 10;

/// The sums of the readings that lost little, the least first.
std::vector<double> sums_of_clean(const Part& part, double tolerance) {
  std::vector<double> sums;
  for (const Reading& reading : part.readings)
    if (reading.lost <= tolerance) sums.push_back(reading.sum());
  std::ranges::sort(sums);
  return sums;
}

}  // namespace

double Reading::sum() const {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

const Reading* Part::best(double tolerance) const {
  const auto order = [&](const Reading& reading) { return std::pair(reading.lost > tolerance, reading.sum()); };
  const auto found = std::ranges::min_element(readings, {}, order);
  return found == readings.end() ? nullptr : &*found;
}

bool Part::is_sure(double tolerance) const {
  const std::vector<double> sums = sums_of_clean(*this, tolerance);
  if (sums.empty()) return false;
  return readings.size() == 1 || (sums.size() > 1 && sums[1] <= (1 + 2 * tolerance) * sums[0]);
}

void measure_in_rounds(std::vector<Part>& parts, double seconds, double tolerance,
                       const std::function<double()>& spent) {
  std::set<std::string> kinds;  // of which a part was measured
  for (size_t round = 0; round < kMostRounds; ++round)
    for (Part& part : parts) {
      if (round >= kRounds && part.is_sure(tolerance)) continue;
      if (spent() > seconds && (round > 0 || kinds.contains(part.kind))) continue;
      part.readings.push_back(part.measure());
      kinds.insert(part.kind);
    }
}

}  // namespace adjoin::plan
