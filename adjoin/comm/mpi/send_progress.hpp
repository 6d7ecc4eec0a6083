#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace adjoin::mpi {

/// Sends by MPI that have begun and not ended. MPI sends the first part of a long message at once, and the rest when the receiver has
/// answered and a thread of the sender is in a call of MPI. So that a rank can compute meanwhile, a thread of its own looks after them.
///
/// Cost: while there are such sends, a look every half millisecond; no thread before the first one
class SendProgress {
 public:
  static constexpr auto kPause = std::chrono::microseconds(500);

  void begin();
  void end();
  bool any() const { return sends_.load() > 0; }
  /// Lets MPI continue what it has begun. Where MPI allows only one thread, that one calls it while it waits for something else.
  static void look();
  /// Called before MPI is finalised.
  void stop() { thread_ = {}; }

 private:
  void run(const std::stop_token& stop);

  std::atomic<int> sends_ = 0;
  std::mutex mutex_;
  std::condition_variable_any has_begun_;
  std::jthread thread_;
};

}  // namespace adjoin::mpi
