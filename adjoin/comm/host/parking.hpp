#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "adjoin/base/processes.hpp"

namespace adjoin::host {

/// How long a waiter keeps its core before it sleeps.
struct Patience {
  int spins = 0;   // with a pause each; only where every rank has its own core
  int yields = 0;  // after the spins; each offers the core to other threads

  /// For `ranks` workers that share `cores` cores.
  static Patience for_ranks(int ranks, int cores) {
    // Ranks that arrive together meet within the spins, about 2 us. Longer spins would be wasted whenever two ranks share a
    // core because another program occupies one: each meeting then lasts as long as a waiter spins.
    return {.spins = ranks <= cores ? 50 : 0, .yields = 200};
  }
};

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// What follows is plain data: its initial state is all zero, and it works between processes that share it.

/// Waits until `word` differs from `seen`, at most for `at_most`; may also return without a reason.
void wait_for_change(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds at_most);
void wake_waiters(std::atomic<uint32_t>& word, int at_most);

/// A lock that is held briefly; for std::lock_guard. It outlives a process that dies while it holds it: the next one that wants
/// it takes it over, so what it guards must be whole between any two writes.
class Lock {
 public:
  void lock() {
    uint32_t free = 0;
    if (!state_.compare_exchange_strong(free, id_of_process())) lock_held();
  }
  void unlock() {
    if (state_.exchange(0) & kHasWaiters) wake_waiters(state_, 1);
  }

 private:
  static constexpr uint32_t kHasWaiters = uint32_t{1} << 31;
  void lock_held();

  std::atomic<uint32_t> state_ = 0;  // the process that holds it
};

/// Where ranks wait for conditions on atomics, and are woken when these may have changed.
///
/// Whoever changes a condition stores with seq_cst and then calls wake(); conditions load with seq_cst. So either the
/// waker sees the sleeper or the sleeper sees the change.
class Parking {
 public:
  /// Spins, calls `before_yields`, then yields; returns whether the condition became true.
  template <class Condition, class Action = decltype([] {})>
  static bool wait_briefly(const Patience& patience, Condition holds, Action before_yields = {}) {
    for (int i = 0; i < patience.spins; ++i) {
      if (holds()) return true;
      pause_briefly();
    }
    before_yields();
    for (int i = 0; i < patience.yields; ++i) {
      if (holds()) return true;
      std::this_thread::yield();
    }
    return holds();
  }

  /// Sleeps at most until the given time; returns whether the condition holds.
  template <class Condition>
  bool sleep(Condition holds,
             std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max()) {
    sleepers_.fetch_add(1);
    bool held = false;
    for (;;) {
      const uint32_t seen = changes_.load();
      if ((held = holds())) break;
      const auto now = std::chrono::steady_clock::now();
      if (now >= until) break;
      wait_for_change(changes_, seen, std::min<std::chrono::nanoseconds>(until - now, std::chrono::hours(1)));
    }
    sleepers_.fetch_sub(1);
    return held;
  }

  void wake() {
    if (sleepers_.load() == 0) return;
    changes_.fetch_add(1);
    wake_waiters(changes_, kAll);
  }

 private:
  static constexpr int kAll = 1 << 30;
  std::atomic<uint32_t> sleepers_ = 0, changes_ = 0;
};

}  // namespace adjoin::host
