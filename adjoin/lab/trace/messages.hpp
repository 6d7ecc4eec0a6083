#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// A call of a trace: the place among the calls of its rank.
struct TracedCall {
  size_t rank = 0, call = 0;
};

/// A message of which both ends stand in a trace, and the calls that they are of.
struct TracedMessage {
  TracedCall send, receive;
};

/// The messages between all ranks, paired as Meetings does.
std::vector<TracedMessage> traced_messages(std::span<const TracedRank> ranks);

/// When the last rank that a call needs had begun the same, for each call of each rank: Meetings::all_there.
std::vector<std::vector<int64_t>> ready_times(std::span<const TracedRank> ranks);

}  // namespace adjoin::lab
