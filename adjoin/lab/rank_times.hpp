#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "adjoin/lab/meetings.hpp"

namespace adjoin::lab {

/// Where the time of a rank's thread in a step went, in seconds. The first four add up to the step.
struct RankTimes {
  double computing = 0;      // all that is none of the others
  double waiting = 0;        // from the begin of a call until the last rank that it needs had begun the same
  double communicating = 0;  // the rest of the calls
  double data = 0;           // slices named "data", without calls in them
  double hidden = 0;         // calls beside the thread, while it did not wait for them: on top of the step

  RankTimes& operator+=(const RankTimes& other);
};

/// Nanoseconds of a steady clock.
struct TimeSpan {
  int64_t begin = 0, end = 0;
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
};

/// Of one rank in a step, of which `meetings` knows the calls of all ranks. A wait for an asynchronous operation is waiting while
/// the operation itself waits for others. What lies outside `step` does not count.
RankTimes times_of(std::span<const MeetingCall> calls, const Meetings& meetings, std::span<const TimeSpan> data,
                   TimeSpan step);

}  // namespace adjoin::lab
