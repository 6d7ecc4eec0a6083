#pragma once

#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin::train {

/// Thrown by work that stopped because the user wanted it to, after it has saved its results so far.
class Interrupted : public Error {
 public:
  Interrupted(const std::string& message, int signal) : Error(message), signal_(signal) {}
  /// The program then exits with 128 plus this number.
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// While one lives, the first Ctrl-C, SIGTERM or SIGHUP is only noted, and the second ends the program at once. Only one may
/// live in a process. A SIGHUP that the program was started to ignore (nohup) stays ignored.
class InterruptGuard {
 public:
  /// `answer`: the lines that the first signal prints at once on standard error; if empty, it prints nothing.
  explicit InterruptGuard(const std::string& answer);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// Whether an interrupt was noted while the guard lives; false after the guard has ended. Any thread may call it; it costs one
/// load. Workers agree on the answer before they act on it (an all_reduce by max), as signals reach processes at different
/// steps.
bool interrupted() noexcept;

/// The signal that was noted; SIGINT where this process got none and acts because another process did.
int interrupting_signal() noexcept;

}  // namespace adjoin::train
