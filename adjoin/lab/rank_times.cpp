#include "adjoin/lab/rank_times.hpp"

#include <optional>
#include <utility>

namespace adjoin::lab {

namespace {

constexpr double kNanoseconds = 1e-9;

TimeSpan common_of(TimeSpan a, TimeSpan b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// The time covered by at least one of the spans.
int64_t covered_by(std::vector<TimeSpan> spans) {
  std::ranges::sort(spans, {}, &TimeSpan::begin);
  int64_t sum = 0, until = INT64_MIN;
  for (const TimeSpan& span : spans) {
    sum += TimeSpan{std::max(span.begin, until), span.end}.size();
    until = std::max(until, span.end);
  }
  return sum;
}

/// The part of `in` that is covered by at least one of the spans.
int64_t covered_of(TimeSpan in, const std::vector<TimeSpan>& spans) {
  std::vector<TimeSpan> within;
  for (const TimeSpan& span : spans) within.push_back(common_of(span, in));
  std::erase_if(within, [](const TimeSpan& span) { return span.size() == 0; });
  return covered_by(std::move(within));
}

bool is_of_operation(const MeetingCall& call) {
  return call.is_wait && call.points.empty() && call.waits_for_all;
}

/// The group of the operation that a wait was for: the last operation beside the thread that ended during the wait.
std::optional<uint64_t> operation_of(const MeetingCall& wait, std::span<const MeetingCall> calls) {
  std::optional<uint64_t> group;
  int64_t latest = wait.begin;
  for (const MeetingCall& call : calls)
    if (call.is_beside && !call.is_wait && call.end >= latest && call.end <= wait.end) {
      latest = call.end;
      group = call.group;
    }
  return group;
}

}  // namespace

RankTimes& RankTimes::operator+=(const RankTimes& other) {
  computing += other.computing;
  waiting += other.waiting;
  communicating += other.communicating;
  data += other.data;
  hidden += other.hidden;
  return *this;
}

RankTimes times_of(std::span<const MeetingCall> calls, const Meetings& meetings, std::span<const TimeSpan> data,
                   TimeSpan step) {
  std::vector<TimeSpan> own, beside, waits;
  std::vector<std::pair<uint64_t, TimeSpan>> waiting_beside;  // by group
  for (const MeetingCall& call : calls) {
    if (!call.is_beside || call.is_wait) continue;
    const int64_t end = call.end == 0 ? step.end : call.end;
    beside.push_back(common_of({call.begin, end}, step));
    waiting_beside.emplace_back(call.group, TimeSpan{call.begin, call.end == 0 ? end : meetings.last_arrival(call)});
  }
  int64_t waiting = 0;
  for (const MeetingCall& call : calls) {
    if (call.is_beside || call.end == 0) continue;
    const TimeSpan span = common_of({call.begin, call.end}, step);
    if (span.size() == 0) continue;
    own.push_back(span);
    if (is_of_operation(call)) {
      waits.push_back(span);
      std::vector<TimeSpan> spans;
      if (const auto group = operation_of(call, calls))
        for (const auto& [of, waited] : waiting_beside)
          if (of == *group) spans.push_back(waited);
      waiting += covered_of(span, spans);
    } else {
      waiting += common_of({call.begin, meetings.last_arrival(call)}, span).size();
    }
  }
  std::vector<TimeSpan> read;
  for (const TimeSpan& span : data) read.push_back(common_of(span, step));
  const int64_t calling = covered_by(own);
  std::vector<TimeSpan> busy = read;
  busy.insert(busy.end(), own.begin(), own.end());
  const int64_t reading = covered_by(std::move(busy)) - calling;
  int64_t hidden = covered_by(beside);
  for (const TimeSpan& span : waits) hidden -= covered_of(span, beside);
  return {.computing = kNanoseconds * static_cast<double>(step.size() - calling - reading),
          .waiting = kNanoseconds * static_cast<double>(waiting),
          .communicating = kNanoseconds * static_cast<double>(calling - waiting),
          .data = kNanoseconds * static_cast<double>(reading),
          .hidden = kNanoseconds * static_cast<double>(hidden)};
}

}  // namespace adjoin::lab
