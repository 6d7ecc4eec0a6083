#pragma once

#include <functional>
#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::measure {

/// One call of one way to do something, on this rank.
using Call = std::function<void()>;

/// How long one contender is measured.
struct Effort {
  double seconds = 0.2;  // about
  int least_blocks = 5, most_blocks = 25;
  int most_calls = 1000;  // of a block
};

/// Microseconds that one call of each contender takes: a list of blocks for each.
///
/// The ranks make one call, so that what others left in the caches does not count, and meet; then each makes the same
/// number of calls one after the other, and they meet again: a block. Its time is that between the two meetings for the
/// rank that saw the longest, divided by the calls. So ranks that wait for a core are counted, what a call lets a rank do
/// ahead of its peers counts for it, as in a program that does nothing else, and what it leaves to the next call counts
/// too. Contenders take turns block by block, so that what disturbs the machine disturbs all alike. The same on all ranks.
std::vector<std::vector<double>> time_blocks(const Communicator& world, std::span<const Call> contenders,
                                             const Effort& effort = {});

/// Waits until threads that have nothing to compute sleep: those of libgomp spin for some milliseconds after their last work,
/// on cores that the next contender needs. Called by all ranks; a contender is then measured as it is alone, once it has
/// made an untimed call.
void let_threads_sleep(const Communicator& world);

/// The middle one of an odd number of values, the mean of the two in the middle of an even number.
double median(std::vector<double> values);

}  // namespace adjoin::measure
