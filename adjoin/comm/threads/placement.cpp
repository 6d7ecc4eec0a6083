#include "adjoin/comm/threads/placement.hpp"

#include <sched.h>

#include <algorithm>

#include "adjoin/comm/threads/parking.hpp"

namespace adjoin::threads {

Placement::Placement(int ranks)
    : is_wanted_(ranks > 1 && Patience::for_ranks(ranks).spins > 0), cores_(static_cast<size_t>(ranks)) {
  for (auto& core : cores_) core.store(-1, std::memory_order_relaxed);
}

bool Placement::is_taken(int core) const {
  return std::any_of(cores_.begin(), cores_.end(),
                     [&](const auto& other) { return other.load(std::memory_order_relaxed) == core; });
}

void Placement::step_aside(int rank) {
  if (!is_wanted_) return;
  const int here = sched_getcpu();
  std::atomic<int>& mine = cores_[static_cast<size_t>(rank)];
  mine.store(here, std::memory_order_relaxed);
  // The lower rank stays, or both would move.
  const bool is_shared = std::any_of(cores_.begin(), cores_.begin() + rank,
                                     [&](const auto& other) { return other.load(std::memory_order_relaxed) == here; });
  cpu_set_t all;
  if (!is_shared || sched_getaffinity(0, sizeof(all), &all) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || is_taken(core)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return;
    sched_setaffinity(0, sizeof(all), &all);
    mine.store(core, std::memory_order_relaxed);
    return;
  }
}

}  // namespace adjoin::threads
