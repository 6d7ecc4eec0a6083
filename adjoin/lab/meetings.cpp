#include "adjoin/lab/meetings.hpp"

#include <algorithm>
#include <array>

#include "adjoin/base/hash.hpp"

namespace adjoin::lab {

namespace {

using CallKind = TimedCall::Kind;

uint64_t point(uint64_t group, uint64_t meeting) {
  return mix(hash_of(std::span<const uint64_t>(std::array{group, meeting})));
}

uint64_t point(uint64_t group, int sender, int receiver, int tag, uint64_t number) {
  return mix(hash_of(std::span<const uint64_t>(std::array{
      group, static_cast<uint64_t>(sender), static_cast<uint64_t>(receiver), static_cast<uint64_t>(tag), number})));
}

}  // namespace

std::vector<uint64_t> MeetingCalls::points_of(const TimedCall& call) {
  if (call.kind == CallKind::collective) return {point(call.group, call.meeting)};
  std::vector<uint64_t> points;
  if (call.kind != CallKind::messages) return points;
  for (const TimedMessage& message : call.messages) {
    const int sender = message.is_send ? rank_ : message.peer, receiver = message.is_send ? message.peer : rank_;
    // A message from a rank to itself is counted once as sent and once as received.
    const uint64_t number = sender == receiver && !message.is_send
                                ? received_from_itself_[{call.group, message.tag}]++
                                : messages_[{call.group, sender, receiver, message.tag}]++;
    points.push_back(point(call.group, sender, receiver, message.tag, number));
  }
  return points;
}

MeetingCall MeetingCalls::of(const TimedCall& call, const Timeline::Taken& taken) {
  const Name name{call.group, call.number};
  MeetingCall made{.begin = call.begin,
                   .end = call.end,
                   .group = call.group,
                   .is_beside = call.is_beside,
                   .is_wait = call.kind == CallKind::wait,
                   .ranks = 2};
  if (made.is_wait) {
    if (call.messages.empty()) return made;
    const auto now = sends_.find(name), before = earlier_sends_.find(name);
    made.needs_others = now != sends_.end() || before != earlier_sends_.end();
    if (made.needs_others) made.points = now != sends_.end() ? now->second : before->second;
    return made;
  }
  if (const auto known = open_.find(name); known != open_.end()) {
    made.is_known = true;
    made.points = std::move(known->second);
    open_.erase(known);
  } else {
    made.points = points_of(call);
  }
  if (call.kind == CallKind::collective) made.ranks = static_cast<uint32_t>(taken.groups.at(call.group).size());
  made.needs_others = !made.points.empty() && call.name != "isend";
  if (call.name == "isend") sends_[name] = made.points;
  return made;
}

std::vector<MeetingCall> MeetingCalls::of(const Timeline::Taken& taken, const std::function<int64_t(int64_t)>& clock) {
  earlier_sends_ = std::exchange(sends_, {});
  std::vector<MeetingCall> made;
  made.reserve(taken.calls.size() + taken.open.size());
  for (const TimedCall& call : taken.calls) made.push_back(of(call, taken));
  for (const TimedCall& call : taken.open) {
    const Name name{call.group, call.number};
    if (call.kind == CallKind::wait || open_.contains(name)) continue;
    made.push_back(of(call, taken));
    open_[name] = made.back().points;
  }
  for (MeetingCall& call : made) {
    if (!clock) break;
    call.begin = clock(call.begin);
    if (call.end != 0) call.end = clock(call.end);
  }
  return made;
}

void Meetings::add(std::span<const MeetingCall> calls) {
  for (const MeetingCall& call : calls) {
    if (call.is_wait) continue;
    for (const uint64_t at : call.points) {
      Point& point = points_[at];
      if (!call.is_known) point.last_begin = ++point.begun == 1 ? call.begin : std::max(point.last_begin, call.begin);
      if (call.end != 0 && ++point.ended == call.ranks) over_.push_back(at);
    }
  }
}

int64_t Meetings::all_there(const MeetingCall& call) const {
  int64_t latest = call.begin;
  if (!call.needs_others) return latest;
  for (const uint64_t at : call.points) {
    const auto found = points_.find(at);
    if (found == points_.end() || found->second.begun < call.ranks) return call.end;
    latest = std::max(latest, found->second.last_begin);
  }
  return std::min(latest, call.end);
}

void Meetings::forget() {
  for (const uint64_t at : over_before_) points_.erase(at);
  over_before_ = std::exchange(over_, {});
}

}  // namespace adjoin::lab
