#include "adjoin/lab/clocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace adjoin::lab {

ClockReading read_clock(const Communicator& group, int rounds, const std::function<int64_t()>& clock) {
  if (!group.backend()->spans_hosts()) return {.at = clock()};
  const Communicator unseen = group.observed_by(nullptr);
  std::array<int64_t, 1> shown{};
  if (group.rank() == 0) {
    for (int rank = 1; rank < group.size(); ++rank)
      for (int i = 0; i < rounds; ++i) {
        unseen.recv(Buffer{}, rank);
        shown[0] = clock();
        unseen.send(const_buffer(shown), rank);
      }
    return {.at = clock()};
  }
  ClockReading best{.error = std::numeric_limits<int64_t>::max()};
  for (int i = 0; i < rounds; ++i) {
    const int64_t begin = clock();
    unseen.send(ConstBuffer{}, 0);
    unseen.recv(buffer(shown), 0);
    const int64_t end = clock(), middle = begin + (end - begin) / 2, error = (end - begin + 1) / 2;
    if (error < best.error) best = {.at = middle, .offset = shown[0] - middle, .error = error};
  }
  return best;
}

int64_t on_clock_of_rank_0(int64_t time, std::span<const ClockReading> readings) {
  if (readings.empty()) return time;
  if (readings.size() == 1 || time <= readings.front().at) return time + readings.front().offset;
  const auto after = std::ranges::find_if(readings.begin() + 1, readings.end() - 1,
                                          [&](const ClockReading& reading) { return time <= reading.at; });
  const ClockReading &first = *(after - 1), &second = *after;
  if (second.at == first.at) return time + second.offset;
  const double slope = static_cast<double>(second.offset - first.offset) / static_cast<double>(second.at - first.at);
  return time + second.offset + std::llround(slope * static_cast<double>(time - second.at));
}

}  // namespace adjoin::lab
