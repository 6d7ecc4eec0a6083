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

/// What all workers of one launch share: whether it was aborted and why, who waits for what, and which groups live.
class World final : public host::World {
 public:
  /// A call that waits longer than `deadline` ends the world with a report; deadlocks are found without it. Calls are
  /// always compared; `is_checked` is what the launch asked for.
  World(int ranks, std::chrono::milliseconds deadline, bool is_checked);

  bool is_checked() const { return is_checked_; }

  // What ends every worker's blocked and later calls; the first counts.

  /// The runtime found what is wrong.
  void end(const std::string& diagnosis) noexcept override;
  void abort(int rank, std::string_view reason) noexcept;
  /// `rank` fails: with `cause` or, where that is null, with an exception that is on its way.
  void fail(int rank, std::exception_ptr cause) noexcept;
  /// `rank` was left by an exception, with which it fails, or has failed as it unwound.
  void leave_by(int rank, std::exception_ptr cause) noexcept;

  /// Once all have returned: throws the first cause, as the class of Error that it is, where the world has ended.
  void throw_cause() const;

  Detector& detector() { return detector_; }

  bool has_left(int rank) const override { return detector_.has_left(rank); }
  void step_aside(const Agent& agent) {
    if (agent.is_ranks_own()) placement_.step_aside(agent.rank());
  }
  /// Sleeps at `parking` until `waiting` is over or the world is aborted, which it is where that would be never.
  void sleep(Agent& agent, host::Parking& parking, const Waiting& waiting);

  /// A group whose waiters are to be woken when the world changes.
  void watch(const std::shared_ptr<host::Group>& group);

 private:
  std::string reason_of_end() const override;
  void end(std::string_view reason, int culprit, std::exception_ptr cause) noexcept;
  std::vector<std::shared_ptr<host::Group>> groups() const;

  std::vector<std::atomic<int>> cores_;
  Placement placement_;
  const std::chrono::milliseconds deadline_;
  const bool is_checked_;
  mutable std::mutex mutex_;
  std::string reason_;        // these of who ended the world
  int culprit_ = -1;          // -1: the runtime
  std::exception_ptr cause_;  // none where the reason says all
  std::vector<std::weak_ptr<host::Group>> groups_;
  Detector detector_;
};

}  // namespace adjoin::threads
