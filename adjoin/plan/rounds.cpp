#include "adjoin/plan/rounds.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace adjoin::plan {
namespace {

constexpr size_t kRounds = 3, kMostRounds = 10;

/// The readings that lost little, the least first.
std::vector<const Reading*> clean_readings(const MeasuredPart& part, double tolerance) {
  std::vector<const Reading*> clean;
  for (const Reading& reading : part.readings)
    if (reading.lost <= tolerance) clean.push_back(&reading);
  std::ranges::sort(clean, {}, &Reading::sum);
  return clean;
}

bool is_close(const Reading* reading, const Reading* least, double tolerance) {
  // The least is close to itself also where its sum is no positive number.
  return reading == least || reading->sum() <= (1 + 2 * tolerance) * least->sum();
}

}  // namespace

double Reading::sum() const {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

const Reading* MeasuredPart::best(double tolerance) const {
  const std::vector<const Reading*> clean = clean_readings(*this, tolerance);
  if (clean.empty()) {
    const auto least = std::ranges::min_element(readings, {}, &Reading::sum);
    return least == readings.end() ? nullptr : &*least;
  }
  const auto close = std::ranges::count_if(clean, [&](auto* each) { return is_close(each, clean[0], tolerance); });
  return clean[static_cast<size_t>(close - 1) / 2];
}

bool MeasuredPart::is_sure(double tolerance) const {
  const std::vector<const Reading*> clean = clean_readings(*this, tolerance);
  if (clean.empty()) return false;
  return readings.size() == 1 || (clean.size() > 1 && is_close(clean[1], clean[0], tolerance));
}

void measure_in_rounds(std::vector<MeasuredPart>& parts, double seconds, double tolerance,
                       const std::function<double()>& spent) {
  std::set<std::string> kinds;  // of which a part was measured
  for (size_t round = 0; round < kMostRounds; ++round)
    for (MeasuredPart& part : parts) {
      if (round >= kRounds && part.is_sure(tolerance)) continue;
      if (spent() > seconds && (round > 0 || kinds.contains(part.kind))) continue;
      part.readings.push_back(part.measure());
      kinds.insert(part.kind);
    }
}

}  // namespace adjoin::plan
