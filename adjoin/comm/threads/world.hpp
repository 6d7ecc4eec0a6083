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
  /// A call that waits longer than `deadline` ends the world with a report; deadlocks are found without it. In a checked
  /// one every collective waits for all its ranks, also where its result does not need them.
  World(int ranks, std::chrono::milliseconds deadline, bool is_checked);

  int size() const { return size_; }
  bool is_checked() const { return is_checked_; }
  const Patience& patience() const { return patience_; }

  /// Ends every worker's blocked and later calls; the first reason counts.
  void abort(std::string_view reason) noexcept;
  bool aborted() const { return aborted_.load(); }
  std::string reason() const;
  /// The same where the runtime found what is wrong, which is then told without further words. What is only suspected
  /// counts less than an error that a rank has yet to tell.
  void end(const std::string& diagnosis, bool is_suspected = false) noexcept;
  bool diagnosed() const { return diagnosed_.load(); }
  bool is_sure() const { return is_sure_.load(); }
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

  /// Says that `agent` never calls again, which ends the world where its rank has missed calls of others.
  void depart(Agent& agent);

  /// A group whose waiters are to be woken when the world changes.
  void watch(const std::shared_ptr<Group>& group);

 private:
  void end(std::string_view reason, bool is_diagnosis, bool is_suspected) noexcept;
  std::vector<std::shared_ptr<Group>> groups() const;
  void check_departed();

  const int size_;
  const Patience patience_;
  Placement placement_;
  const std::chrono::milliseconds deadline_;
  const bool is_checked_;
  std::atomic<bool> aborted_ = false, diagnosed_ = false, is_sure_ = true;
  mutable std::mutex mutex_;
  std::string reason_;
  std::vector<std::weak_ptr<Group>> groups_;
  Detector detector_;
};

}  // namespace adjoin::threads
