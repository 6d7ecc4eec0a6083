#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "adjoin/lab/trace/one_clock.hpp"
#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// Passes to `text` the pieces of a file of Chrome's trace events that shows what ranks did. Their times are on one clock.
///
/// A rank is a process; its own thread is a thread, and operations that run beside it use as many more threads as run at once.
/// A slice is a complete event, and so is a call. A call contains two more events: waiting, until the last rank that it needs
/// has begun the same, and moving. A message is a flow from its send to its receive.
/// Source: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
void write_trace_events(std::span<const TracedRank> ranks, std::span<const TracedHost> hosts,
                        const std::function<void(std::string_view)>& text);

}  // namespace adjoin::lab
