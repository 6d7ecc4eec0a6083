#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/call_record.hpp"

namespace adjoin::lab {

/// One end of a message of a call. Ranks are those of the world.
struct TimedMessage {
  int peer = 0, tag = 0;
  bool is_send = false;
  ElementType type = ElementType::float32;
  int64_t bytes = 0;
};

std::vector<TimedMessage> timed(std::span<const Message> messages, const GroupIdentity& group);

/// One call of a rank, or its wait for a call that runs beside it. Ranks are those of the world; times are nanoseconds of the
/// host's steady clock.
struct TimedCall : CallRecord {
  std::vector<TimedMessage> messages{};  // of a call with messages, and of a wait for one
  bool is_begun = false;                 // Call::is_begun: a wait for it follows
};

/// A part of a rank's work that is not a call: "data", "forward", "optimizer".
struct TimedSlice {
  std::string_view name{};  // a literal, or text that outlives the timeline and whoever takes from it
  int64_t number = -1;      // of the step or the micro-batch that it belongs to; -1: none
  int64_t stage = -1;       // of a pipeline's action
  int64_t begin = 0, end = 0;
};

/// The calls of one rank, and its work between them, since the last take().
///
/// An observer of the rank's world. It belongs to the thread that makes it, and is that thread's current timeline for
/// TimeSlice.
/// Cost: about 50 ns per call
class Timeline final : public Observer {
 public:
  Timeline();
  ~Timeline() override;

  void begin(const Call& call) override;
  void end(const Call& call) override;
  void begin_wait(const Call* begun) override;
  void end_wait(const Call* begun) override;

  /// What has ended since the last take(), in the order in which it ended; the running calls, whose end is 0, and which are
  /// returned again when they have ended; and the members of all groups that have had calls so far.
  struct Interval {
    std::vector<TimedCall> calls;
    std::vector<TimedCall> open;
    std::vector<TimedSlice> slices;
    std::map<uint64_t, std::vector<int>> groups;  // ranks of the world, by GroupIdentity::id
  };
  Interval take();

 private:
  friend class TimeSlice;
  void open(TimedCall call, const GroupIdentity* group);
  void close(const CallRecord& what);
  bool is_beside() const;

  const std::thread::id owner_ = std::this_thread::get_id();
  Timeline* const outer_;  // the thread's previous current timeline
  std::mutex mutex_;
  std::vector<TimedCall> open_;
  Interval ended_;
};

/// Records in the current timeline of this thread, where there is one, what the rank does for as long as this object lives.
class TimeSlice : NotCopied {
 public:
  explicit TimeSlice(std::string_view name, int64_t number = -1, int64_t stage = -1);
  ~TimeSlice();

 private:
  Timeline* const timeline_;
  TimedSlice slice_;
};

}  // namespace adjoin::lab
