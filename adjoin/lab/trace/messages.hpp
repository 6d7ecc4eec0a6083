#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// A call of a trace: its rank and its index among the calls of the rank.
struct TracedCall {
  size_t rank = 0, call = 0;
};

/// A message whose two ends are both in a trace, and the calls that they belong to.
struct TracedMessage {
  TracedCall send, receive;
};

/// The messages between all ranks, paired as Meetings does.
std::vector<TracedMessage> traced_messages(std::span<const TracedRank> ranks);

/// For each call of each rank, when the last rank that it needs had begun the same: Meetings::all_there.
std::vector<std::vector<int64_t>> ready_times(std::span<const TracedRank> ranks);

}  // namespace adjoin::lab
