#pragma once

#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::train {

/// Thrown by work that stopped at the user's wish, after it has saved what it had.
class Interrupted : public Error {
 public:
  Interrupted(const std::string& message, int signal) : Error(message), signal_(signal) {}
  /// The program then exits with 128 and this.
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// While one of these lives, the first Ctrl-C, SIGTERM or SIGHUP is only noted, and the second ends the program at once.
/// One at a time in a process. A SIGHUP that the program was started to ignore (nohup) stays ignored.
class InterruptGuard {
 public:
  /// `answer` is what the first signal prints at once on standard error, in lines; nothing where it is empty.
  explicit InterruptGuard(const std::string& answer);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// Whether an interrupt was noted since the guard began; not once it has ended. Any thread may ask; it costs one load.
/// Workers agree on the answer before they act on it (an all_reduce by max): signals reach processes at different
/// steps.
bool interrupted() noexcept;

/// The signal that was noted; SIGINT where this process got none, which acts on what another was told.
int interrupting_signal() noexcept;

}  // namespace adjoin::train
