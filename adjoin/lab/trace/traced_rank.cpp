#include "adjoin/lab/trace/traced_rank.hpp"

#include <numeric>

#include "adjoin/comm/values.hpp"
#include "adjoin/lab/packing.hpp"

namespace adjoin::lab {

void parts_of(Packing& packing, TimedCall& call) {
  packing(static_cast<CallRecord&>(call), call.messages);
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

}  // namespace adjoin::lab
