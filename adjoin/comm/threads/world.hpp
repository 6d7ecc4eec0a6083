#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/comm/threads/detector.hpp"
#include "adjoin/comm/threads/parking.hpp"
#include "adjoin/comm/threads/placement.hpp"

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

  /// Ends every worker's blocked and later calls, because of `rank`; the first reason counts.
  void abort(std::string_view reason, int rank) noexcept;
  bool aborted() const { return aborted_.load(); }
  std::string reason() const;
  /// The same where the runtime found what is wrong, which is then told without further words.
  void end(const std::string& diagnosis) noexcept;
  bool diagnosed() const { return aborted() && culprit_.load() < 0; }
  /// The rank that ended the world; -1 where the runtime did, or nobody.
  int culprit() const { return culprit_.load(); }
  /// Throws CommunicationError with the reason.
  [[noreturn]] void throw_aborted() const;

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
  void end(std::string_view reason, int culprit) noexcept;
  std::vector<std::shared_ptr<Group>> groups() const;

  const int size_;
  const Patience patience_;
  Placement placement_;
  const std::chrono::milliseconds deadline_;
  const bool is_checked_;
  std::atomic<bool> aborted_ = false;
  std::atomic<int> culprit_ = -1;
  mutable std::mutex mutex_;
  std::string reason_;
  std::vector<std::weak_ptr<Group>> groups_;
  Detector detector_;
};

}  // namespace adjoin::threads
