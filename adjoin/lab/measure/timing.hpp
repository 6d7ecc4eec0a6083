#pragma once

#include <functional>
#include <span>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::measure {

/// One way to do something, on this rank. A call consists of its parts one after another, such as forward and backward, and
/// each part is timed. An empty part does nothing, but all ranks must have the same number of parts. `begin` and `end` are
/// called around each turn.
struct Contender {
  std::vector<std::function<void()>> parts;
  std::function<void()> begin = {}, end = {};
};

/// How long contenders are measured.
struct Effort {
  int turns = 25;                   // at most, of each contender
  int least_turns = 5;              // at least, even after `seconds`
  double seconds = 0.2;             // after this time a contender gets no further turns
  double turn_seconds = 500e-6;     // about, for a turn, so that clock and meetings hardly matter; 0: one call
  int most_calls = 1000;            // at most, in a turn
  bool lets_threads_sleep = false;  // before each turn: for contenders that compute on a library's threads
};

/// The seconds of one call, for each turn.
struct Times {
  std::vector<std::vector<double>> parts;
  std::vector<double> all;  // of all parts together
};

/// Times contenders in turns, so that a disturbance of the machine disturbs all of them alike; returns the same on all ranks.
///
/// Each is measured as if it were alone. Threads of libgomp spin for some milliseconds after their last work, on cores that the
/// next contender needs, so the function waits until they sleep. Then the ranks make one call that is not counted, since the
/// caches are still full of the others' data. Neither is done for a single contender. Then the ranks meet, make the same number
/// of calls one after another, and meet again; where there are several parts they also meet after each part. So the time of
/// ranks that wait for a core is included, a call gets credit for letting a rank run ahead of its peers, and work that it
/// leaves to the next call is counted too.
std::vector<Times> time_in_turns(const Communicator& world, std::span<const Contender> contenders,
                                 const Effort& effort = {});

/// The median of the seconds that `work` takes on all ranks, which begin at the same time.
double median_seconds(int64_t times, const Communicator& world, const std::function<void()>& work);

/// Waits until the threads of libraries sleep. Called by all ranks.
void let_threads_sleep(const Communicator& world);

/// The middle value of an odd number of values, the mean of the two middle values of an even number.
double median(std::vector<double> values);

/// The median of the ratios of two contenders' times, turn by turn.
double median_ratio(std::span<const double> a, std::span<const double> b);

}  // namespace adjoin::measure
