#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "adjoin/lab/trace/one_clock.hpp"
#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// Tells `text` the pieces of a file of Chrome's trace events, which shows what ranks did. Their times are on one clock.
///
/// A rank is a process, its own thread a thread, and what goes on beside as many more as it takes at once. A slice is a complete
/// event, and so is a call, which has two more within it: waiting, until the last rank that it needs has begun the same, and
/// moving. A message is a flow from its send to its receive.
/// Source: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
void write_trace_events(std::span<const TracedRank> ranks, std::span<const TracedHost> hosts,
                        const std::function<void(std::string_view)>& text);

}  // namespace adjoin::lab
