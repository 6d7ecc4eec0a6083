#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/lab/clocks.hpp"
#include "adjoin/lab/meetings.hpp"

namespace adjoin::lab {

/// What one rank of a trace did. The texts in it are stored in `texts`, or outlive this object.
struct TracedRank : Timeline::Interval {
  int rank = 0;                       // in the world that all groups come from
  std::string name{};                 // "rank 3: dp 1, tp 1"
  std::string host{};                 // unique among the hosts
  std::vector<ClockReading> clock{};  // before and after the record
  std::set<std::string> texts{};
};

/// The record as bytes, with all texts.
std::string packed(TracedRank& record);
/// The record in such bytes. Throws: InternalError where they end too early
TracedRank unpacked(std::string_view bytes);

/// The records of all ranks on rank 0, and none on other ranks; called by all.
std::vector<TracedRank> gathered_records(TracedRank& mine, const Communicator& world);

/// The messages both of whose ends are in a trace.
std::vector<MatchedMessage> traced_messages(std::span<const TracedRank> ranks);

}  // namespace adjoin::lab
