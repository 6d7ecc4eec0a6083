#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/clocks.hpp"
#include "adjoin/lab/meetings.hpp"
#include "adjoin/lab/rank_times.hpp"
#include "adjoin/lab/timeline.hpp"

namespace adjoin::lab {

/// Tells rank 0 after each step where the time of each rank went; each rank of a world makes one, all together.
///
/// Ranks send rank 0 when they began what; they do not wait for it. Nobody observes these messages. Where ranks are on several
/// hosts, their clocks are compared at the begin and then every ten seconds or so.
/// Cost: on other ranks than 0 a message of some 50 bytes a call; on rank 0 these messages and less than a microsecond a call of any rank
class TimesOfRanks {
 public:
  explicit TimesOfRanks(const Communicator& world);

  /// Of the time from `begin` to `end` on rank 0, by its steady clock; on all other ranks, whose times do not matter, nothing. Called
  /// by all ranks, with all that a timeline of the rank took: what is left out here would be missed as never begun.
  std::vector<RankTimes> of_step(const Timeline::Taken& taken, TimeSpan step);

  /// What rank 0's clock showed when this rank's showed `time`.
  int64_t on_clock_of_rank_0(int64_t time) const { return lab::on_clock_of_rank_0(time, readings_); }

 private:
  /// What rank 0 is told of a rank.
  struct Record {
    std::vector<MeetingCall> calls;
    std::vector<TimeSpan> data;
  };
  Record record_of(const Timeline::Taken& taken);
  static std::vector<int64_t> packed(const Record& record);
  static Record unpacked(std::span<const int64_t> numbers);
  void send(const Record& record);
  Record receive_from(int rank);
  void compare_clocks();

  Communicator group_;  // that nobody observes
  MeetingCalls calls_;
  Meetings meetings_;
  std::vector<size_t> first_part_;  // of each rank's numbers: so many are one message, and what is more is another
  std::vector<int64_t> numbers_;    // that are being sent
  std::vector<std::unique_ptr<Sending>> sending_;
  std::vector<ClockReading> readings_;
  int64_t steps_ = 0, steps_until_reading_ = 1;  // since the last reading
};

}  // namespace adjoin::lab
