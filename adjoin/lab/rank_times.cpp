#include "adjoin/lab/rank_times.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "adjoin/lab/packing.hpp"

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

constexpr int64_t kFirstPart = 4096;
constexpr size_t kHead = sizeof(int64_t);  // at the beginning: the number of all bytes
constexpr double kSecondsBetweenReadings = 10;
constexpr int kRoundsOfReading = 10;

/// Steps are mostly alike, so that the bytes of the next step fit into one message little larger than this.
int64_t next_first_part(int64_t bytes) {
  return bytes + bytes / 4 + 512;
}

Communicator unobserved_group(const Communicator& world) {
  return world.observed_by(nullptr).subset(all_ranks(world.size()));
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

void parts_of(Packing& packing, MeetingCall& call) {
  packing(call.begin, call.end, call.group, call.is_beside, call.is_wait, call.waits_for_all, call.was_recorded,
          call.ranks, call.points);
}

TimesOfRanks::TimesOfRanks(const Communicator& world)
    : group_(unobserved_group(world)),
      calls_(world.rank()),
      first_part_(static_cast<size_t>(world.size()), kFirstPart) {
  compare_clocks();
}

std::vector<RankTimes> TimesOfRanks::of_step(const Timeline::Interval& interval, TimeSpan step) {
  Record mine = record_of(interval);
  std::vector<RankTimes> times;
  if (group_.rank() != 0) {
    send(mine);
  } else {
    std::vector<Record> records{std::move(mine)};
    for (int rank = 1; rank < group_.size(); ++rank) records.push_back(receive_from(rank));
    for (const Record& record : records) meetings_.add(record.calls);
    for (const Record& record : records) times.push_back(times_of(record.calls, meetings_, record.data, step));
    meetings_.forget();
  }
  compare_clocks();
  return times;
}

TimesOfRanks::Record TimesOfRanks::record_of(const Timeline::Interval& interval) {
  const auto clock = [this](int64_t time) { return on_clock_of_rank_0(time); };
  Record record{.calls = calls_.of(interval, clock), .data = {}};
  for (const TimedSlice& slice : interval.slices)
    if (slice.name == "data") record.data.push_back({clock(slice.begin), clock(slice.end)});
  return record;
}

void TimesOfRanks::send(Record& record) {
  for (const auto& sending : sending_) sending->wait();
  sending_.clear();
  Packing packing;
  packing(record.calls, record.data);
  const int64_t all = kHead + std::ssize(packing.bytes());
  bytes_ = std::string(reinterpret_cast<const char*>(&all), kHead) + packing.bytes();
  int64_t& first = first_part_[static_cast<size_t>(group_.rank())];
  bytes_.resize(static_cast<size_t>(std::max(all, first)));
  const ConstBuffer bytes(bytes_.data(), std::ssize(bytes_), ElementType::uint8);
  sending_.push_back(group_.isend(bytes.slice(0, first), 0));
  if (all > first) sending_.push_back(group_.isend(bytes.slice(first, all - first), 0));
  first = next_first_part(all);
}

TimesOfRanks::Record TimesOfRanks::receive_from(int rank) {
  int64_t& first = first_part_[static_cast<size_t>(rank)];
  const auto receive = [&](int64_t begin, int64_t end) {
    bytes_.resize(static_cast<size_t>(end));
    group_.recv(Buffer{bytes_.data() + begin, end - begin, ElementType::uint8}, rank);
  };
  receive(0, first);
  int64_t all = 0;
  std::memcpy(&all, bytes_.data(), kHead);
  if (all > first) receive(first, all);
  first = next_first_part(all);
  Record record;
  std::set<std::string> none;
  Packing packing(std::string_view(bytes_).substr(kHead), none);
  packing(record.calls, record.data);
  return record;
}

void TimesOfRanks::compare_clocks() {
  if (!group_.backend()->spans_hosts() || --steps_until_reading_ > 0) return;
  readings_.push_back(read_clock(group_, kRoundsOfReading));
  std::array<int64_t, 1> steps{1};
  if (readings_.size() > 1) {
    const auto took = static_cast<double>(readings_.back().at - readings_[readings_.size() - 2].at) * 1e-9;
    steps[0] = std::clamp(static_cast<int64_t>(static_cast<double>(steps_) * kSecondsBetweenReadings / took),
                          int64_t{1}, 4 * steps_);
  }
  if (readings_.size() > 2) readings_.erase(readings_.begin());
  group_.broadcast(buffer(steps), 0);  // the same number on all ranks, whose clocks differ
  steps_ = steps_until_reading_ = steps[0];
}

}  // namespace adjoin::lab
