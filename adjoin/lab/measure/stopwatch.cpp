#include "adjoin/lab/measure/stopwatch.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace adjoin::measure {

Stopwatch::Lap& Stopwatch::Lap::operator+=(const Lap& other) {
  seconds += other.seconds;
  processor += other.processor;
  return *this;
}

double Stopwatch::Lap::lost() const {
  return seconds > 0 ? std::clamp(1 - processor / seconds, 0.0, 1.0) : 0;
}

Stopwatch::Lap Stopwatch::lap() {
  timespec of_thread{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &of_thread);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const Lap end{std::chrono::duration<double>(now).count(),
                static_cast<double>(of_thread.tv_sec) + 1e-9 * static_cast<double>(of_thread.tv_nsec)};
  const Lap passed{end.seconds - begin_.seconds, end.processor - begin_.processor};
  begin_ = end;
  return passed;
}

}  // namespace adjoin::measure
