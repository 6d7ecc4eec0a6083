#pragma once

#include <functional>
#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::measure {

/// One way to do something, on this rank. A call is its parts one after another, as forward and backward, each of which is
/// timed; an empty one does nothing, but all ranks have equally many. `begin` and `end` are called around each turn.
struct Contender {
  std::vector<std::function<void()>> parts;
  std::function<void()> begin = {}, end = {};
};

/// How long contenders are measured.
struct Effort {
  int turns = 25;                   // of each contender,
  int least_turns = 5;              // and fewer, but not fewer than these,
  double seconds = 0.2;             // once it has been measured for so long
  double turn_seconds = 500e-6;     // about: of a turn, so that neither the clock nor the meetings matter; 0: one call
  int most_calls = 1000;            // of a turn
  bool lets_threads_sleep = false;  // before each turn: where contenders compute on a library's threads
};

/// Seconds of one call, in each turn.
struct Times {
  std::vector<std::vector<double>> parts;
  std::vector<double> all;  // of all parts together
};

/// Times contenders, which take turns, so that what disturbs the machine disturbs all alike; the same on all ranks.
///
/// Each is measured as it is alone. Threads of libgomp spin for some milliseconds after their last work, on cores that
/// the next contender needs, so they are left to fall asleep. Then the ranks make one call that does not count, since the
/// caches are still full of the others' data; one contender that has no others does neither. Then they meet, make the same
/// number of calls one after another, and meet again, where there are several parts after each of them. So ranks that wait
/// for a core are counted, what a call lets a rank do ahead of its peers counts for it, and what it leaves to the next call
/// counts too.
std::vector<Times> time_in_turns(const Communicator& world, std::span<const Contender> contenders,
                                 const Effort& effort = {});

/// Waits until the threads of libraries sleep. Called by all ranks.
void let_threads_sleep(const Communicator& world);

/// The middle one of an odd number of values, the mean of the two in the middle of an even number.
double median(std::vector<double> values);

/// The median of the ratios of two contenders' times, turn by turn.
double median_ratio(std::span<const double> a, std::span<const double> b);

}  // namespace adjoin::measure
