#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "adjoin/base/cores.hpp"
#include "adjoin/comm/diagnosis.hpp"

namespace adjoin::threads {

/// How long a waiter keeps its core before it sleeps.
struct Patience {
  int spins = 0;   // with a pause each; only where every rank has a core of its own
  int yields = 0;  // then, giving the core to whoever wants it

  /// For `ranks` workers on this machine.
  static Patience for_ranks(int ranks) {
    // Ranks that come together meet within the spins, of 2 us. Longer ones would be lost whenever two ranks share a core
    // because another program has one: each meeting then lasts as long as a waiter spins.
    static const int cores = usable_cores();
    return {.spins = ranks <= cores ? 50 : 0, .yields = 200};
  }
};

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// A place where threads wait for conditions on atomics, and are woken when these may have changed.
///
/// Whoever changes a condition stores with seq_cst and then calls wake(); conditions load with seq_cst. So either the
/// waker sees the sleeper or the sleeper sees the change.
class Parking {
 public:
  /// Spins, calls `before_yields`, then yields; whether the condition came to hold meanwhile.
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

  /// Sleeps for at most so long; whether the condition holds.
  template <class Condition>
  bool sleep(Condition holds, std::chrono::milliseconds at_most = diagnosis::kLongest) {
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    const bool held = changed_.wait_for(lock, at_most, holds);
    sleepers_.fetch_sub(1);
    return held;
  }

  void wake() {
    if (sleepers_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  std::atomic<int> sleepers_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace adjoin::threads
