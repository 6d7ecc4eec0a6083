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

/// Numbers the points at which one rank meets others. All ranks that take part in a point give it the same number. A point is a
/// collective's meeting, with one call per rank of its group, or a message, with two calls: as messages from one sender to one
/// receiver in one group with one tag do not overtake each other, the first send belongs to the first receive, and so on.
class MeetingPoints {
 public:
  explicit MeetingPoints(int rank) : rank_(rank) {}

  /// Of the rank's next call: one for each message, or one for a collective.
  std::vector<uint64_t> of(const TimedCall& call);

 private:
  int rank_;
  /// The number of messages so far, by group, sender, receiver and tag; those from the rank to itself are counted once as sent
  /// and once as received.
  std::map<std::tuple<uint64_t, int, int, int>, uint64_t> messages_, received_from_itself_;
};

/// A call of several ranks' calls: the index of its rank, and its own among those of the rank.
struct CallOfRank {
  size_t rank = 0, call = 0;
  auto operator<=>(const CallOfRank&) const = default;
};
/// A message, and the calls that its ends belong to.
struct MatchedMessage {
  CallOfRank send, receive;
  TimedMessage sent;
};
struct RankCalls {
  int rank = 0;  // in the world
  std::span<const TimedCall> calls;
};
/// The messages both of whose ends are among these calls, in the order of the receives.
std::vector<MatchedMessage> matched_messages(std::span<const RankCalls> ranks);

/// The part of a call that says when it was, which ranks it needed, and for which ranks others waited. Ranks exchange
/// nothing more than these, since other ranks need its begin.
struct MeetingCall {
  int64_t begin = 0, end = 0;  // by the clock of rank 0; the end is 0 while the call runs
  uint64_t group = 0;
  bool is_beside = false;          // CallRecord::is_beside
  bool is_wait = false;            // no rank needs its begin
  bool waits_for_all = true;       // false for the beginning of a call
  bool was_recorded = false;       // it was returned before, while it was running
  uint32_t ranks = 0;              // the number of ranks that meet at each point
  std::vector<uint64_t> points{};  // none: it needs no rank, or is a wait for an asynchronous operation
};

/// Makes MeetingCalls from the calls of one rank.
class MeetingCalls {
 public:
  explicit MeetingCalls(int rank) : points_(rank) {}

  /// For what the rank's timeline returned, passed in the same order: first one for each call, in the order of the calls, then
  /// those for calls that are still running. `clock` converts times to rank 0's clock.
  std::vector<MeetingCall> of(const Timeline::Interval& interval, const std::function<int64_t(int64_t)>& clock = {});

 private:
  using Name = std::pair<uint64_t, uint64_t>;  // identifies a call: its group and its number there
  MeetingCall of(const TimedCall& call, const Timeline::Interval& interval);

  MeetingPoints points_;
  /// The points of begun calls that may still be waited for, of this interval and the one before; and those of running calls.
  std::map<Name, std::vector<uint64_t>> begun_, begun_before_, open_;
};

/// Finds when the last of the ranks that a call needed had begun the same call or message.
class Meetings {
 public:
  /// Adds calls of a rank, in the order in which MeetingCalls returned them.
  void add(std::span<const MeetingCall> calls);
  /// When the last rank that the call needed had begun. The call's begin where it needed no rank; its end where one of the
  /// ranks is not known to have begun, since then it waited all the time. Never before its begin or after its end.
  int64_t last_arrival(const MeetingCall& call) const;
  /// Forgets the points at which all calls had ended when forget() was last called. Called when all ranks have added their
  /// calls.
  void forget();
  size_t size() const { return points_.size(); }

 private:
  struct Point {
    uint32_t begun = 0, ended = 0;
    int64_t last_begin = 0;
  };
  std::unordered_map<uint64_t, Point> points_;
  std::vector<uint64_t> over_, over_before_;  // all calls there have ended; a wait for a begun one may still name them
};

}  // namespace adjoin::lab
