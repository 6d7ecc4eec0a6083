#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/clocks.hpp"
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

/// Collects on rank 0, after each step, how the time of each rank was spent; all ranks of a world make one together.
///
/// Ranks send the begins of their calls to rank 0 and do not wait for it. These messages are not observed. Where ranks are on
/// several hosts, their clocks are compared at the beginning and then about every ten seconds.
/// Cost: on ranks other than 0 a message of about 50 bytes per call; on rank 0 these messages and less than a microsecond per
/// call of any rank
class TimesOfRanks {
 public:
  explicit TimesOfRanks(const Communicator& world);

  /// On rank 0, the times of all ranks between `begin` and `end` of `step`, by rank 0's steady clock. On all other ranks, whose
  /// `step` is ignored, nothing. Called by all ranks, with everything that the rank's timeline returned: a call that is missing
  /// here would count as never begun.
  std::vector<RankTimes> of_step(const Timeline::Interval& interval, TimeSpan step);

  /// What rank 0's clock showed when this rank's showed `time`.
  int64_t on_clock_of_rank_0(int64_t time) const { return lab::on_clock_of_rank_0(time, readings_); }

 private:
  /// What a rank sends to rank 0.
  struct Record {
    std::vector<MeetingCall> calls;
    std::vector<TimeSpan> data;
  };
  Record record_of(const Timeline::Interval& interval);
  void send(Record& record);
  Record receive_from(int rank);
  void compare_clocks();

  Communicator group_;  // not observed
  MeetingCalls calls_;
  Meetings meetings_;
  std::vector<int64_t> first_part_;  // for each rank: how many bytes its first message holds; a second has the rest
  std::string bytes_;                // being sent
  std::vector<std::unique_ptr<Pending>> sending_;
  std::vector<ClockReading> readings_;
  int64_t steps_ = 0, steps_until_reading_ = 1;  // since the last reading
};

}  // namespace adjoin::lab
