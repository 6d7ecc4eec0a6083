#include "adjoin/lab/times_of_ranks.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace adjoin::lab {

namespace {

constexpr size_t kFirstNumbers = 512;
constexpr double kSecondsBetweenReadings = 10;
constexpr int kRoundsOfReading = 10;

/// Steps are mostly alike, so that the numbers of the next step fit into one message little larger than this.
size_t next_first_part(size_t numbers) {
  return numbers + numbers / 4 + 64;
}

Communicator unobserved_group(const Communicator& world) {
  std::vector<int> all(static_cast<size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return world.observed_by(nullptr).subset(all);
}

}  // namespace

TimesOfRanks::TimesOfRanks(const Communicator& world)
    : group_(unobserved_group(world)),
      calls_(world.rank()),
      first_part_(static_cast<size_t>(world.size()), kFirstNumbers) {
  compare_clocks();
}

std::vector<RankTimes> TimesOfRanks::of_step(const Timeline::Taken& taken, TimeSpan step) {
  Record mine = record_of(taken);
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

TimesOfRanks::Record TimesOfRanks::record_of(const Timeline::Taken& taken) {
  const auto clock = [this](int64_t time) { return on_clock_of_rank_0(time); };
  Record record{.calls = calls_.of(taken, clock), .data = {}};
  for (const TimedSlice& slice : taken.slices)
    if (slice.name == "data") record.data.push_back({clock(slice.begin), clock(slice.end)});
  return record;
}

std::vector<int64_t> TimesOfRanks::packed(const Record& record) {
  std::vector<int64_t> numbers{0, std::ssize(record.calls), std::ssize(record.data)};
  for (const MeetingCall& call : record.calls) {
    const uint64_t flags = uint64_t{call.is_beside} | uint64_t{call.is_wait} << 1 | uint64_t{call.needs_others} << 2 |
                           uint64_t{call.is_known} << 3 | uint64_t{call.ranks} << 4;
    numbers.insert(numbers.end(), {call.begin, call.end, static_cast<int64_t>(call.group), static_cast<int64_t>(flags),
                                   std::ssize(call.points)});
    for (const uint64_t point : call.points) numbers.push_back(static_cast<int64_t>(point));
  }
  for (const TimeSpan& span : record.data) numbers.insert(numbers.end(), {span.begin, span.end});
  numbers[0] = std::ssize(numbers);
  return numbers;
}

TimesOfRanks::Record TimesOfRanks::unpacked(std::span<const int64_t> numbers) {
  const auto calls = static_cast<size_t>(numbers[1]), spans = static_cast<size_t>(numbers[2]);
  Record record;
  record.calls.reserve(calls);
  auto next = numbers.begin() + 3;
  for (size_t i = 0; i < calls; ++i) {
    const auto flags = static_cast<uint64_t>(next[3]);
    MeetingCall call{.begin = next[0],
                     .end = next[1],
                     .group = static_cast<uint64_t>(next[2]),
                     .is_beside = (flags & 1) != 0,
                     .is_wait = (flags & 2) != 0,
                     .needs_others = (flags & 4) != 0,
                     .is_known = (flags & 8) != 0,
                     .ranks = static_cast<uint32_t>(flags >> 4)};
    const int64_t points = next[4];
    next += 5;
    call.points.assign(next, next + points);
    next += points;
    record.calls.push_back(std::move(call));
  }
  for (size_t i = 0; i < spans; ++i, next += 2) record.data.push_back({next[0], next[1]});
  return record;
}

void TimesOfRanks::send(const Record& record) {
  for (const auto& sending : sending_) sending->wait();
  sending_.clear();
  numbers_ = packed(record);
  const size_t all = numbers_.size();
  size_t& first = first_part_[static_cast<size_t>(group_.rank())];
  numbers_.resize(std::max(all, first));
  const ConstBuffer numbers = const_buffer(numbers_);
  sending_.push_back(group_.isend(numbers.slice(0, static_cast<int64_t>(first)), 0));
  if (all > first)
    sending_.push_back(group_.isend(numbers.slice(static_cast<int64_t>(first), static_cast<int64_t>(all - first)), 0));
  first = next_first_part(all);
}

TimesOfRanks::Record TimesOfRanks::receive_from(int rank) {
  size_t& first = first_part_[static_cast<size_t>(rank)];
  numbers_.resize(first);
  group_.recv(buffer(numbers_), rank);
  const auto all = static_cast<size_t>(numbers_[0]);
  if (all > first) {
    numbers_.resize(all);
    group_.recv(buffer(numbers_).slice(static_cast<int64_t>(first), static_cast<int64_t>(all - first)), rank);
  }
  first = next_first_part(all);
  return unpacked(numbers_);
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
