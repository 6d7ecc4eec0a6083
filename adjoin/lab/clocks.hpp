#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "adjoin/base/ticks.hpp"
#include "adjoin/comm/communicator.hpp"

namespace adjoin::lab {

/// How far a rank's clock was from that of rank 0 at a time. All in nanoseconds.
struct ClockReading {
  int64_t at = 0;      // by this rank's clock
  int64_t offset = 0;  // to be added to this rank's clock for that of rank 0
  int64_t error = 0;   // the offset is at most so far from the true one
};

/// Compares this rank's clock with that of rank 0; called by all ranks of a group, which are not observed in it. Where the
/// group's ranks are all on one host they share a clock: offset and error are 0, and nothing is sent.
///
/// Of `rounds` messages to rank 0 and back, the one that was quickest counts: rank 0 read its clock within it, so that half
/// of it bounds the error. Source: Cristian, "Probabilistic clock synchronization", Distributed Computing 3 (1989).
/// Cost: `rounds` round trips for each rank, one rank after another
/// `clock` is for tests.
ClockReading read_clock(const Communicator& group, int rounds = 20,
                        const std::function<int64_t()>& clock = steady_nanoseconds);

/// What rank 0's clock showed when this rank's showed `time`: between two readings their offsets on a straight line, which
/// goes on after the last one; before the first one and where there is no other, its offset. Readings are in their order.
int64_t on_clock_of_rank_0(int64_t time, std::span<const ClockReading> readings);

}  // namespace adjoin::lab
