#include "adjoin/comm/host/parking.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace adjoin::host {

// Not FUTEX_PRIVATE_FLAG, as the word may be in memory that processes share.

void wait_for_change(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds at_most) {
  const timespec time{.tv_sec = at_most.count() / 1'000'000'000, .tv_nsec = at_most.count() % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_waiters(std::atomic<uint32_t>& word, int at_most) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, at_most, nullptr, nullptr, 0);
}

void Lock::lock_held() {
  const uint32_t own = id_of_process();
  for (;;) {
    uint32_t seen = state_.load();
    const uint32_t holder = seen & ~kHasWaiters;
    // Whoever has waited does not know whether others wait too.
    if (holder == 0 || (holder != own && state_of_process(holder) == ProcessState::gone)) {
      if (state_.compare_exchange_strong(seen, own | kHasWaiters)) return;
    } else if (seen & kHasWaiters || state_.compare_exchange_strong(seen, seen | kHasWaiters)) {
      wait_for_change(state_, holder | kHasWaiters, std::chrono::milliseconds(100));
    }
  }
}

}  // namespace adjoin::host
