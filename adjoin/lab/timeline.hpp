#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "adjoin/comm/call.hpp"

namespace adjoin::lab {

/// One end of a message of a call. Ranks are those of the world.
struct TimedMessage {
  int peer = 0, tag = 0;
  bool is_send = false;
  int64_t bytes = 0;
};

/// One call of a rank, or its wait for one that goes on beside it. Times are nanoseconds of the host's steady clock.
struct TimedCall {
  enum class Kind : uint8_t { collective, messages, wait, other };
  Kind kind = Kind::other;
  std::string_view name{};           // of the operation; "wait" for a wait
  std::string_view algorithm{};      // Call::algorithm
  uint64_t group = 0;                // GroupIdentity::id; 0 too for a wait for an asynchronous operation
  uint64_t number = 0, meeting = 0;  // Call::sequence and Call::meeting
  int64_t bytes = 0;                 // that this rank gives
  Where where{};
  std::vector<TimedMessage> messages{};  // of messages, and of a wait for a send
  bool is_beside = false;                // made by another thread of the rank than the one that the timeline belongs to
  int64_t begin = 0, end = 0;
};

/// A part of a rank's work that is no call: "data", "forward", "optimizer".
struct TimedSlice {
  std::string_view name{};  // a literal, or what else outlives the timeline and who takes from it
  int64_t number = -1;      // of the step or the micro-batch that it is of; -1: of none
  int64_t stage = -1;       // of a pipeline's action
  int64_t begin = 0, end = 0;
};

/// What one rank called, and what it did between, since the last take().
///
/// An observer of the rank's world; it belongs to the thread that makes it, and is that thread's current one for TimeSlice.
/// Cost: some 50 ns a call
class Timeline final : public Observer {
 public:
  Timeline();
  ~Timeline() override;

  void begin(const Call& call) override;
  void end(const Call& call) override;
  void begin_wait(const Call* send) override;
  void end_wait(const Call* send) override;

  /// What ended since the last time, in the order in which it ended; the calls that go on, whose end is 0, which are given again
  /// when they have ended; and the members of all groups that had calls until now.
  struct Taken {
    std::vector<TimedCall> calls;
    std::vector<TimedCall> open;
    std::vector<TimedSlice> slices;
    std::map<uint64_t, std::vector<int>> groups;  // ranks of the world, by GroupIdentity::id
  };
  Taken take();

 private:
  friend class TimeSlice;
  void open(TimedCall call, const GroupIdentity* group);
  void close(const TimedCall& what);
  bool is_beside() const { return std::this_thread::get_id() != owner_; }

  const std::thread::id owner_ = std::this_thread::get_id();
  Timeline* const outer_;  // the thread's current one before this
  std::mutex mutex_;
  std::vector<TimedCall> open_;
  Taken ended_;
};

/// Notes in the current timeline of this thread, where there is one, what the rank does for as long as it lives.
class TimeSlice {
 public:
  explicit TimeSlice(std::string_view name, int64_t number = -1, int64_t stage = -1);
  ~TimeSlice();
  TimeSlice(const TimeSlice&) = delete;
  TimeSlice& operator=(const TimeSlice&) = delete;

 private:
  Timeline* const timeline_;
  TimedSlice slice_;
};

}  // namespace adjoin::lab
