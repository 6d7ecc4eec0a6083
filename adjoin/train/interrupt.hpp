#pragma once

#include "adjoin/base/error.hpp"

namespace adjoin::train {

/// Thrown by work that stopped at the user's wish, after it has saved what it had; the program then exits with 130.
class Interrupted : public Error {
  using Error::Error;
};

/// While one of these lives, the first Ctrl-C or SIGTERM is only noted, and the second ends the program at once.
/// One at a time in a process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// Whether an interrupt was noted since the newest guard began. Any thread may ask; it costs one load.
/// Workers agree on the answer before they act on it (an all_reduce by max): signals reach processes at different
/// steps.
bool interrupted() noexcept;

}  // namespace adjoin::train
