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
#include "adjoin/comm/host/group.hpp"
#include "adjoin/comm/threads/detector.hpp"

namespace adjoin::threads {

/// What all workers of one launch share: whether and why it was aborted, who waits for what, and which groups are
/// alive.
class World final : public host::World {
 public:
  /// A call that waits longer than `deadline` ends the world with a report; deadlocks are found without it. Calls are
  /// always compared; `is_checked` is what the launch requested.
  World(int ranks, std::chrono::milliseconds deadline, bool is_checked);

  bool is_checked() const { return is_checked_; }

  // These end every worker's blocked and later calls; the first one counts.

  /// An error that the runtime found.
  void end(const std::string& diagnosis) noexcept override;
  void abort(int rank, std::string_view reason) noexcept;
  /// `rank` fails: with `cause` or, where that is null, with an exception that is being thrown.
  void fail(int rank, std::exception_ptr cause) noexcept;
  /// An exception has left `rank`'s function: the rank fails with it, or has already failed while its stack was
  /// unwound.
  void leave_by(int rank, std::exception_ptr cause) noexcept;

  /// Called once all ranks have returned: where the world has ended, throws the first cause as the same class of Error.
  void throw_cause() const;

  Detector& detector() { return detector_; }

  bool has_left(int rank) const override { return detector_.has_left(rank); }
  void step_aside(const Agent& agent) {
    if (agent.is_ranks_own()) placement_.step_aside(agent.rank());
  }
  /// Sleeps at `parking` until `waiting` is over or the world is aborted, which happens where it would never be over.
  void sleep(Agent& agent, host::Parking& parking, const Waiting& waiting);

  /// Registers a group whose waiters must be woken when the world changes.
  void watch(const std::shared_ptr<host::Group>& group);

 private:
  std::string reason_of_end() const override;
  void end(std::string_view reason, int culprit, std::exception_ptr cause) noexcept;
  std::vector<std::shared_ptr<host::Group>> groups() const;

  std::vector<std::atomic<int>> cores_;
  ThreadCores placement_;
  const std::chrono::milliseconds deadline_;
  const bool is_checked_;
  mutable std::mutex mutex_;
  std::string reason_;        // these three are of the rank that ended the world
  int culprit_ = -1;          // -1: the runtime
  std::exception_ptr cause_;  // none where the reason says all
  std::vector<std::weak_ptr<host::Group>> groups_;
  Detector detector_;
};

}  // namespace adjoin::threads
