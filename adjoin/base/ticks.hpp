#pragma once

#include <chrono>
#include <cstdint>

namespace adjoin {

/// Nanoseconds of this host's steady clock, which all its processes read alike.
inline int64_t steady_nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Whether the kernel keeps time by the processor's counter, which then runs alike on all cores.
bool counts_time();

/// The time in ticks of constant but unknown length, the same for all threads of the host: from the processor's time-stamp
/// counter, read in 10 ns, or from the steady clock, which takes 24 ns with the same counter.
inline int64_t ticks() {
#ifdef __x86_64__
  static const bool counts = counts_time();
  if (counts) return static_cast<int64_t>(__builtin_ia32_rdtsc());
#endif
  return steady_nanoseconds();
}

/// One moment on both clocks.
struct TickPair {
  int64_t ticks = 0, steady = 0;
};
inline TickPair tick_pair() {
  return {ticks(), steady_nanoseconds()};
}

/// The steady clock's time at a tick, computed from two known moments.
inline int64_t steady_at(int64_t tick, const TickPair& first, const TickPair& last) {
  const double length = last.ticks > first.ticks ? static_cast<double>(last.steady - first.steady) /
                                                       static_cast<double>(last.ticks - first.ticks)
                                                 : 1;
  return last.steady + static_cast<int64_t>(length * static_cast<double>(tick - last.ticks));
}

}  // namespace adjoin
