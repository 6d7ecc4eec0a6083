#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "adjoin/base/ticks.hpp"
#include "adjoin/comm/communicator.hpp"

namespace adjoin::lab {

/// How far a rank's clock was from that of rank 0 at one moment. All in nanoseconds.
struct ClockReading {
  int64_t at = 0;      // by this rank's clock
  int64_t offset = 0;  // added to this rank's clock gives that of rank 0
  int64_t error = 0;   // bound on the difference between this offset and the true one
};

/// Compares this rank's clock with that of rank 0. Called by all ranks of a group; its messages are not observed. Where all
/// ranks of the group are on one host they share a clock: offset and error are 0, and nothing is sent.
///
/// Of `rounds` messages to rank 0 and back, the fastest one is used: rank 0 read its clock during it, so half of its duration
/// bounds the error. Source: Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989).
/// Cost: `rounds` round trips for each rank, one rank after another
/// `clock` is for tests.
ClockReading read_clock(const Communicator& group, int rounds = 20,
                        const std::function<int64_t()>& clock = steady_nanoseconds);

/// What rank 0's clock showed when this rank's showed `time`. Between two readings the offset is interpolated linearly, and the
/// line continues after the last reading. Before the first reading, and where there is only one, that reading's offset is used.
/// Readings are in chronological order.
int64_t on_clock_of_rank_0(int64_t time, std::span<const ClockReading> readings);

}  // namespace adjoin::lab
