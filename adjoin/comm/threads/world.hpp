#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/cores.hpp"
#include "adjoin/comm/threads/detector.hpp"
#include "adjoin/comm/threads/parking.hpp"

namespace adjoin::threads {

class Group;

/// What all workers of one launch share: whether it was aborted and why, who waits for what, and which groups live.
class World {
 public:
  /// A call that waits longer than `deadline` ends the world with a report; deadlocks are found without it. Calls are
  /// always compared; `is_checked` is what the launch asked for.
  World(int ranks, std::chrono::milliseconds deadline, bool is_checked);

  int size() const { return size_; }
  bool is_checked() const { return is_checked_; }
  const Patience& patience() const { return patience_; }

  // What ends every worker's blocked and later calls; the first counts.

  /// The runtime found what is wrong.
  void end(const std::string& diagnosis) noexcept;
  void abort(int rank, std::string_view reason) noexcept;
  /// `rank` fails: with `cause` or, where that is null, with an exception that is on its way.
  void fail(int rank, std::exception_ptr cause) noexcept;
  /// `rank` was left by an exception, with which it fails, or has failed as it unwound.
  void leave_by(int rank, std::exception_ptr cause) noexcept;

  bool aborted() const { return aborted_.load(); }
  /// Throws CommunicationError with the reason.
  [[noreturn]] void throw_aborted() const;
  /// Once all have returned: throws the first cause, as the class of Error that it is, where the world has ended.
  void throw_cause() const;

  Detector& detector() { return detector_; }

  /// Waits for a short time, at the price of the core; whether the condition came to hold. Sleep where it did not.
  template <class Condition>
  bool wait_briefly(const Agent& agent, Condition holds) {
    return Parking::wait_briefly(patience_, holds, [&] {
      if (agent.is_ranks_own()) placement_.step_aside(agent.rank());
    });
  }

  /// Sleeps at `parking` until `waiting` is over or the world is aborted, which it is where that would be never.
  void sleep(Agent& agent, Parking& parking, const Waiting& waiting);

  /// A group whose waiters are to be woken when the world changes.
  void watch(const std::shared_ptr<Group>& group);

 private:
  void end(std::string_view reason, int culprit, std::exception_ptr cause) noexcept;
  std::vector<std::shared_ptr<Group>> groups() const;

  const int size_;
  const Patience patience_;
  Placement placement_;
  const std::chrono::milliseconds deadline_;
  const bool is_checked_;
  std::atomic<bool> aborted_ = false;
  mutable std::mutex mutex_;
  std::string reason_;        // these of who ended the world
  int culprit_ = -1;          // -1: the runtime
  std::exception_ptr cause_;  // none where the reason says all
  std::vector<std::weak_ptr<Group>> groups_;
  Detector detector_;
};

}  // namespace adjoin::threads
