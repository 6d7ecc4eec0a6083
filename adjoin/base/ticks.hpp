#pragma once

#include <chrono>
#include <cstdint>

namespace adjoin {

/// Nanoseconds of this host's steady clock, which all its processes read alike.
inline int64_t steady_nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Whether the processor's counter is what the kernel keeps time by, and so runs alike on all cores.
bool counts_time();

/// The time in ticks of unknown, constant length, alike for all threads of the host: of the processor's time-stamp counter, which
/// is read in 10 ns, or of the steady clock, which takes 24 ns by the same counter.
inline int64_t ticks() {
#ifdef __x86_64__
  static const bool counts = counts_time();
  if (counts) return static_cast<int64_t>(__builtin_ia32_rdtsc());
#endif
  return steady_nanoseconds();
}

/// One moment by both.
struct TickPair {
  int64_t ticks = 0, steady = 0;
};
inline TickPair tick_pair() {
  return {ticks(), steady_nanoseconds()};
}

/// The steady clock's time at a tick, by two moments that are known.
inline int64_t steady_at(int64_t tick, const TickPair& first, const TickPair& last) {
  const double length = last.ticks > first.ticks ? static_cast<double>(last.steady - first.steady) /
                                                       static_cast<double>(last.ticks - first.ticks)
                                                 : 1;
  return last.steady + static_cast<int64_t>(length * static_cast<double>(tick - last.ticks));
}

}  // namespace adjoin
