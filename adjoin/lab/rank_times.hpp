#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "adjoin/lab/meetings.hpp"

namespace adjoin::lab {

/// How the time of a rank's thread in a step was spent, in seconds. The first four add up to the step.
struct RankTimes {
  double computing = 0;      // the rest of the step
  double waiting = 0;        // from the begin of a call until the last rank that it needs has begun the same
  double communicating = 0;  // the rest of the calls
  double data = 0;           // slices named "data", except calls within them
  double hidden = 0;         // calls beside the thread while it did not wait for them: in addition to the step

  RankTimes& operator+=(const RankTimes& other);
};

/// Nanoseconds of a steady clock.
struct TimeSpan {
  int64_t begin = 0, end = 0;
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
};

/// The times of one rank in a step; `meetings` has the calls of all ranks. A wait for an asynchronous operation counts as
/// waiting while the operation itself waits for other ranks. Time outside `step` is not counted.
RankTimes times_of(std::span<const MeetingCall> calls, const Meetings& meetings, std::span<const TimeSpan> data,
                   TimeSpan step);

}  // namespace adjoin::lab
