#include "adjoin/lab/timeline.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/base/ticks.hpp"
#include "adjoin/comm/turns.hpp"

namespace adjoin::lab {

namespace {

thread_local Timeline* current = nullptr;

TimedCall timed(const Call& call) {
  TimedCall timed;
  timed.note_in_world(call);
  timed.messages = lab::timed(call.messages, *call.group);
  timed.is_begun = call.is_begun;
  return timed;
}

TimedCall timed_wait(const Call* begun) {
  TimedCall wait = begun ? timed(*begun) : TimedCall{};
  wait.kind = CallRecord::Kind::wait;
  wait.name = "wait";
  return wait;
}

}  // namespace

std::vector<TimedMessage> timed(std::span<const Message> messages, const GroupIdentity& group) {
  std::vector<TimedMessage> timed;
  timed.reserve(messages.size());
  for (const Message& message : messages)
    timed.push_back({.peer = group.world_ranks[static_cast<size_t>(message.peer)],
                     .tag = message.tag,
                     .is_send = message.is_send(),
                     .type = message.buffer.type,
                     .bytes = message.buffer.bytes()});
  return timed;
}

Timeline::Timeline() : outer_(std::exchange(current, this)) {}

Timeline::~Timeline() {
  if (current == this) current = outer_;
}

void Timeline::begin(const Call& call) {
  open(timed(call), call.group);
}

void Timeline::end(const Call& call) {
  close({.group = call.group->id, .number = call.sequence});
}

void Timeline::begin_wait(const Call* begun) {
  open(timed_wait(begun), nullptr);
}

void Timeline::end_wait(const Call* begun) {
  CallRecord what{.kind = CallRecord::Kind::wait};
  if (begun) what.group = begun->group->id, what.number = begun->sequence;
  close(what);
}

/// The second of two parts that take turns is as much the rank's own work as the first.
bool Timeline::is_beside() const {
  return std::this_thread::get_id() != owner_ && !Turns::is_second();
}

void Timeline::open(TimedCall call, const GroupIdentity* group) {
  call.is_beside = is_beside();
  call.begin = steady_nanoseconds();
  const std::lock_guard lock(mutex_);
  open_.push_back(std::move(call));
  if (group) ended_.groups.try_emplace(group->id, group->world_ranks);
}

void Timeline::close(const CallRecord& what) {
  const int64_t end = steady_nanoseconds();
  const bool waits = what.kind == CallRecord::Kind::wait, beside = is_beside();
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.rbegin(), open_.rend(), [&](const TimedCall& call) {
    return call.group == what.group && call.number == what.number && call.is_beside == beside &&
           (call.kind == CallRecord::Kind::wait) == waits;
  });
  if (found == open_.rend()) return;  // it began before the timeline
  found->end = end;
  ended_.calls.push_back(std::move(*found));
  open_.erase(std::next(found).base());
}

Timeline::Interval Timeline::take() {
  const std::lock_guard lock(mutex_);
  Interval interval{.calls = std::exchange(ended_.calls, {}),
                    .open = open_,
                    .slices = std::exchange(ended_.slices, {}),
                    .groups = ended_.groups};
  ended_.calls.reserve(interval.calls.size());
  return interval;
}

TimeSlice::TimeSlice(std::string_view name, int64_t number, int64_t stage)
    : timeline_(current),
      slice_{.name = name, .number = number, .stage = stage, .begin = timeline_ ? steady_nanoseconds() : 0} {}

TimeSlice::~TimeSlice() {
  if (!timeline_) return;
  slice_.end = steady_nanoseconds();
  const std::lock_guard lock(timeline_->mutex_);
  timeline_->ended_.slices.push_back(slice_);
}

}  // namespace adjoin::lab
