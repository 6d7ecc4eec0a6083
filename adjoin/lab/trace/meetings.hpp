#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/lab/trace/rank_record.hpp"

namespace adjoin::lab {

/// A call of a trace: the place in the calls of its rank.
struct TracedCall {
  size_t rank = 0, call = 0;
};

/// A message of which both ends stand in a trace, and the calls that they are of.
struct TracedMessage {
  TracedCall send, receive;
  int tag = 0;
  int64_t bytes = 0;
};

/// The messages of all ranks: of those from one rank to another on one group with one tag, the nth sent is the nth received.
std::vector<TracedMessage> traced_messages(std::span<const RankRecord> ranks);

/// When the last rank that a call needs had begun the same, for each call of each rank. Where that cannot be told, as of a wait
/// for an asynchronous operation, it is the begin of the call itself.
std::vector<std::vector<int64_t>> ready_times(std::span<const RankRecord> ranks,
                                              std::span<const TracedMessage> messages);

}  // namespace adjoin::lab
