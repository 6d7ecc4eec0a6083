#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/lab/trace/traced_rank.hpp"

namespace adjoin::lab {

/// The ranks of a trace that share a clock.
struct TracedHost {
  std::string name;
  std::vector<int> ranks;
  int64_t clock_error = 0;  // bound on how far its times are off those of rank 0's host, in nanoseconds
};

/// Converts all times to the clock of rank 0, whose record is the first. Ranks of a host stay on one clock: the best of their
/// readings is used. Then the times of a host are shifted by as little as is needed so that no message ends before it begins.
std::vector<TracedHost> put_on_one_clock(std::vector<TracedRank>& ranks);

}  // namespace adjoin::lab
