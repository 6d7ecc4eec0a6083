#include "adjoin/lab/times_of_ranks.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>

#include "adjoin/lab/packing.hpp"

namespace adjoin::lab {

namespace {

constexpr int64_t kFirstPart = 4096;
constexpr size_t kHead = sizeof(int64_t);  // at the beginning: the number of all bytes
constexpr double kSecondsBetweenReadings = 10;
constexpr int kRoundsOfReading = 10;

/// Steps are mostly alike, so that the bytes of the next step fit into one message little larger than this.
int64_t next_first_part(int64_t bytes) {
  return bytes + bytes / 4 + 512;
}

Communicator unobserved_group(const Communicator& world) {
  std::vector<int> all(static_cast<size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return world.observed_by(nullptr).subset(all);
}

}  // namespace

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
