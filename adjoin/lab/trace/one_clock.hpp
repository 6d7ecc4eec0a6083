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
  int64_t clock_error = 0;  // nanoseconds by which its times may be off those of rank 0's host
};

/// Changes all times to those of the clock of rank 0, whose record is the first. Ranks of a host stay on one clock: of their
/// readings the best count. The times of a host are then shifted as little as it takes that no message ends before it begins.
std::vector<TracedHost> put_on_one_clock(std::vector<TracedRank>& ranks);

}  // namespace adjoin::lab
