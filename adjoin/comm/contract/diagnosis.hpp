#pragma once

#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Who waits for whom, as plain data: the thread backend and MPI's watchdog find deadlocks with the same functions.
namespace adjoin::diagnosis {

/// One thread of one rank that may call, at one moment.
struct Worker {
  enum class State {
    runs,   // computes, or is in a call that can go on
    waits,  // is in a call that cannot go on until each of `needs` has acted, or any of them
    rests   // does nothing before another thread of its rank has acted
  };
  int rank = 0;  // in the world
  State state = State::runs;
  std::vector<int> needs = {};  // ranks of the world
  std::string call = {};        // the call that it is in; "" where it is in none
  bool needs_any = false;       // one of `needs` is enough
};

/// For each worker whether it can never go on: it waits for a rank none of whose workers can act. A rank without
/// workers has returned.
/// Cost: O(W (W + needs)) for W workers at worst; one pass where no worker is stuck.
std::vector<bool> stuck(std::span<const Worker> workers, int ranks);

/// `headline`, followed by one line for every rank of the world that says which calls its workers are in and whom they
/// wait for; ranks with equal lines share one.
std::string report(const std::string& headline, std::span<const Worker> workers, int ranks);

/// A rank and a line of text about it.
using Line = std::pair<int, std::string>;
/// "\n  rank 1: broadcast …\n  ranks 0, 2-5: all_reduce …", ordered by the first rank of each line.
std::string list_of(std::span<const Line> lines);

/// " on group {2, 3}", in the group's order; "" where the group is the whole world.
std::string group_name(std::span<const int> world_ranks, int world_size);

/// A time longer than any wait, but short enough to be added to a clock's time.
inline constexpr std::chrono::hours kLongest(24 * 365 * 10);

/// "0.2 s", "300 s".
std::string text_of(std::chrono::milliseconds time);

}  // namespace adjoin::diagnosis
