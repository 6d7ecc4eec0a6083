#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adjoin/lab/timeline.hpp"

namespace adjoin::lab {

/// What of a call says when it was, whom it needed, and for whom others waited. Others need its begin: ranks exchange no more.
///
/// Ranks meet at points, which all that take part name by the same number: a collective's meeting, which as many calls have
/// as its group has ranks, or a message, which has two.
struct MeetingCall {
  int64_t begin = 0, end = 0;  // by the clock of rank 0; the end is 0 while it goes on
  uint64_t group = 0;
  bool is_beside = false;          // TimedCall::is_beside
  bool is_wait = false;            // of which nobody needs the begin
  bool needs_others = true;        // an isend does not
  bool is_known = false;           // it was given before, while it went on
  uint32_t ranks = 0;              // that meet at each point
  std::vector<uint64_t> points{};  // none: it needs nobody, or is a wait for an asynchronous operation
};

/// Makes them of the calls of one rank.
class MeetingCalls {
 public:
  explicit MeetingCalls(int rank) : rank_(rank) {}

  /// Of what its timeline took, given in its order: one for each call, in their order, and then for those that still go on.
  /// `clock` turns times into those of rank 0's clock.
  std::vector<MeetingCall> of(const Timeline::Taken& taken, const std::function<int64_t(int64_t)>& clock = {});

 private:
  using Name = std::pair<uint64_t, uint64_t>;  // of a call: its group and its number there
  MeetingCall of(const TimedCall& call, const Timeline::Taken& taken);
  std::vector<uint64_t> points_of(const TimedCall& call);

  int rank_;
  /// How many messages went by group, sender, receiver and tag.
  std::map<std::tuple<uint64_t, int, int, int>, uint64_t> messages_;
  std::map<std::pair<uint64_t, int>, uint64_t> received_from_itself_;
  /// The points of sends that may still be waited for, of this take and of the one before; and of what went on.
  std::map<Name, std::vector<uint64_t>> sends_, earlier_sends_, open_;
};

/// When the last rank that a call needed had begun the same.
class Meetings {
 public:
  /// Adds calls of a rank, in the order in which MeetingCalls gave them.
  void add(std::span<const MeetingCall> calls);
  /// When the last of those that the call needed had begun; the call's begin where it needed nobody, and its end where one
  /// of them is not known to have begun: then it waited all the time. Never before its begin or after its end.
  int64_t all_there(const MeetingCall& call) const;
  /// Forgets the points at which all calls have ended since the time before. Called when all ranks have added what they did.
  void forget();
  size_t size() const { return points_.size(); }

 private:
  struct Point {
    uint32_t begun = 0, ended = 0;
    int64_t last_begin = 0;
  };
  std::unordered_map<uint64_t, Point> points_;
  std::vector<uint64_t> over_, over_before_;  // at which all calls have ended; a wait for a send may still name them
};

}  // namespace adjoin::lab
