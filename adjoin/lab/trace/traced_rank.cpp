#include "adjoin/lab/trace/traced_rank.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <numeric>
#include <utility>

#include "adjoin/comm/values.hpp"
#include "adjoin/lab/machine.hpp"
#include "adjoin/lab/packing.hpp"

namespace adjoin::lab {

void parts_of(Packing& packing, TimedCall& call) {
  packing(static_cast<CallRecord&>(call), call.messages, call.is_begun);
}

void parts_of(Packing& packing, TimedSlice& slice) {
  packing(slice.name, slice.number, slice.stage, slice.begin, slice.end);
}

void parts_of(Packing& packing, TracedRank& record) {
  packing(record.rank, record.name, record.host, record.clock, record.calls, record.slices, record.groups);
}

std::string packed(TracedRank& record) {
  Packing packing;
  packing(record);
  return packing.bytes();
}

TracedRank unpacked(std::string_view bytes) {
  TracedRank record;
  Packing packing(bytes, record.texts);
  packing(record);
  return record;
}

std::vector<MatchedMessage> traced_messages(std::span<const TracedRank> ranks) {
  std::vector<RankCalls> calls;
  for (const TracedRank& rank : ranks) calls.push_back({rank.rank, rank.calls});
  return matched_messages(calls);
}

namespace {

/// The host's name and, as other hosts may have the same name, the id of its system's boot.
std::string this_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  return this_machine().host + " " + boot;
}

std::vector<TracedRank> gathered_records(TracedRank& mine, const Communicator& world) {
  const std::string bytes = packed(mine);
  const std::vector<int64_t> lengths = numbers_of_all(std::ssize(bytes), world);
  const bool is_root = world.rank() == 0;
  std::string all(is_root ? static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0})) : 0, '\0');
  world.gather({bytes.data(), std::ssize(bytes), ElementType::uint8}, {all.data(), std::ssize(all), ElementType::uint8},
               lengths, 0);
  std::vector<TracedRank> records;
  std::string_view rest = all;
  for (size_t rank = 0; is_root && rank < lengths.size(); ++rank) {
    records.push_back(unpacked(rest.substr(0, static_cast<size_t>(lengths[rank]))));
    rest.remove_prefix(static_cast<size_t>(lengths[rank]));
  }
  return records;
}

}  // namespace

RankRecorder::RankRecorder(const Communicator& world, std::string name) : world_(world) {
  mine_.rank = world.world_ranks()[static_cast<size_t>(world.rank())];
  mine_.name = std::move(name);
  mine_.host = this_host();
  mine_.clock = {read_clock(world)};
}

void RankRecorder::add(Timeline::Interval interval) {
  std::ranges::move(interval.calls, std::back_inserter(mine_.calls));
  std::ranges::move(interval.slices, std::back_inserter(mine_.slices));
  mine_.groups.merge(interval.groups);
}

std::vector<TracedRank> RankRecorder::gathered() {
  mine_.clock.push_back(read_clock(world_));
  std::vector<TracedRank> ranks = gathered_records(mine_, world_);
  static_cast<Timeline::Interval&>(mine_) = {};
  mine_.clock.erase(mine_.clock.begin());
  return ranks;
}

}  // namespace adjoin::lab
