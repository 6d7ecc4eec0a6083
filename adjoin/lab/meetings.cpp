#include "adjoin/lab/meetings.hpp"

#include <algorithm>
#include <array>

#include "adjoin/base/hash.hpp"

namespace adjoin::lab {

using CallKind = CallRecord::Kind;

std::vector<uint64_t> MeetingPoints::of(const TimedCall& call) {
  const auto point = [](auto... numbers) {
    return mix(hash_of(std::span<const uint64_t>(std::array{static_cast<uint64_t>(numbers)...})));
  };
  if (call.kind == CallKind::collective) return {point(call.group, call.meeting)};
  std::vector<uint64_t> points;
  if (call.kind != CallKind::messages) return points;
  for (const TimedMessage& message : call.messages) {
    const int sender = message.is_send ? rank_ : message.peer, receiver = message.is_send ? message.peer : rank_;
    auto& counts = sender == receiver && !message.is_send ? received_from_itself_ : messages_;
    points.push_back(
        point(call.group, sender, receiver, message.tag, counts[{call.group, sender, receiver, message.tag}]++));
  }
  return points;
}

std::vector<MatchedMessage> matched_messages(std::span<const RankCalls> ranks) {
  std::unordered_map<uint64_t, MatchedMessage> sends;
  std::vector<std::pair<uint64_t, CallOfRank>> receives;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    MeetingPoints numbers(ranks[rank].rank);
    for (size_t i = 0; i < ranks[rank].calls.size(); ++i) {
      const TimedCall& call = ranks[rank].calls[i];
      if (call.kind != CallKind::messages) continue;
      const std::vector<uint64_t> points = numbers.of(call);
      for (size_t m = 0; m < points.size(); ++m)
        if (call.messages[m].is_send)
          sends.emplace(points[m], MatchedMessage{{rank, i}, {}, call.messages[m]});
        else
          receives.push_back({points[m], {rank, i}});
    }
  }
  std::vector<MatchedMessage> messages;
  for (const auto& [point, receive] : receives)
    if (const auto send = sends.find(point); send != sends.end())
      messages.push_back({send->second.send, receive, send->second.sent});
  return messages;
}

MeetingCall MeetingCalls::of(const TimedCall& call, const Timeline::Interval& interval) {
  const Name name{call.group, call.number};
  MeetingCall made{.begin = call.begin,
                   .end = call.end,
                   .group = call.group,
                   .is_beside = call.is_beside,
                   .is_wait = call.kind == CallKind::wait,
                   .ranks = 2};
  if (made.is_wait) {
    if (call.number == 0) return made;  // for an asynchronous operation
    const auto now = begun_.find(name), before = begun_before_.find(name);
    made.waits_for_all = now != begun_.end() || before != begun_before_.end();
    if (made.waits_for_all) made.points = now != begun_.end() ? now->second : before->second;
    if (made.waits_for_all && call.messages.empty())
      made.ranks = static_cast<uint32_t>(interval.groups.at(call.group).size());
    return made;
  }
  if (const auto known = open_.find(name); known != open_.end()) {
    made.was_recorded = true;
    made.points = std::move(known->second);
    open_.erase(known);
  } else {
    made.points = points_.of(call);
  }
  if (call.kind == CallKind::collective) made.ranks = static_cast<uint32_t>(interval.groups.at(call.group).size());
  made.waits_for_all = !made.points.empty() && !call.is_begun;
  if (call.is_begun) begun_[name] = made.points;
  return made;
}

std::vector<MeetingCall> MeetingCalls::of(const Timeline::Interval& interval,
                                          const std::function<int64_t(int64_t)>& clock) {
  begun_before_ = std::exchange(begun_, {});
  std::vector<MeetingCall> made;
  made.reserve(interval.calls.size() + interval.open.size());
  for (const TimedCall& call : interval.calls) made.push_back(of(call, interval));
  for (const TimedCall& call : interval.open) {
    const Name name{call.group, call.number};
    if (call.kind == CallKind::wait || open_.contains(name)) continue;
    made.push_back(of(call, interval));
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
      if (!call.was_recorded)
        point.last_begin = ++point.begun == 1 ? call.begin : std::max(point.last_begin, call.begin);
      if (call.end != 0 && ++point.ended == call.ranks) over_.push_back(at);
    }
  }
}

int64_t Meetings::last_arrival(const MeetingCall& call) const {
  int64_t latest = call.begin;
  if (!call.waits_for_all) return latest;
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
