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

/// The messages both of whose ends are in a trace.
std::vector<MatchedMessage> traced_messages(std::span<const TracedRank> ranks);

/// Collects what this rank did, for a trace. All ranks of the world call each function together, except add.
class RankRecorder {
 public:
  /// Compares the clocks. `name` is this rank's name in the trace.
  RankRecorder(const Communicator& world, std::string name);

  /// Adds what this rank did. The texts in it must outlive gathered().
  void add(Timeline::Interval interval);

  /// Compares the clocks again, and returns the records of all ranks on rank 0, none on other ranks. What is added later is for
  /// the next call.
  std::vector<TracedRank> gathered();

 private:
  const Communicator world_;
  TracedRank mine_;
};

}  // namespace adjoin::lab
