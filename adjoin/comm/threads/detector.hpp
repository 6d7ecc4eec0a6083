#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "adjoin/base/process_owner.hpp"
#include "adjoin/base/thread_owner.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"
#include "adjoin/comm/host/world.hpp"

namespace adjoin::threads {

using host::Waiting;

class Detector;

/// One thread of one rank that may call. The detector knows it from its construction to its destruction, so it knows that a
/// rank whose agents all wait does nothing else.
class Agent {
 public:
  enum class Kind {
    of_launch,     // the thread that the launch made for the rank
    of_user,       // another thread that the user made
    of_any_thread  // of a stream, whose work several threads do in turn; of a world of one rank
  };
  Agent(Detector& detector, int rank, Kind kind);
  ~Agent();

  int rank() const { return rank_; }
  bool is_ranks_own() const { return kind_ == Kind::of_launch; }
  /// The thread that may call.
  ThreadOwner& owner() { return owner_; }

 private:
  friend class Detector;
  Detector& detector_;
  const int rank_;
  const Kind kind_;
  const ProcessOwner process_;
  ThreadOwner owner_;
  const Waiting* waiting_ = nullptr;  // this and the next are guarded by the detector's lock
  bool rests_ = false;
};

/// Knows all agents of a world, and finds a deadlock in the call of the last agent that enters it.
///
/// An agent enters a wait, rests and leaves under the lock; what it waits for may happen at any time, and then stays so. So
/// agents that at one moment all wait for each other, none of them freed, wait forever: the first one to be freed would have to
/// be freed by another of them, which acts only after it was freed itself.
class Detector {
 public:
  /// `on_deadlock` gets the report; it is called outside the lock, on the thread that completed the deadlock.
  Detector(int ranks, std::function<void(const std::string& report)> on_deadlock);

  /// Records that `agent` goes to sleep until `waiting` is over.
  void block(Agent& agent, const Waiting& waiting);
  void unblock(Agent& agent);
  /// Records whether `agent` does nothing before another agent of its rank has acted.
  void rest(Agent& agent, bool rests);
  /// Records that `agent` never calls again, though it may live on.
  void leave(Agent& agent);
  /// Whether all agents of `rank` have left.
  bool has_left(int rank) const { return has_left_[static_cast<size_t>(rank)].load(); }
  /// A report of what every rank is doing, under the given headline.
  std::string look(const std::string& headline) const;

 private:
  friend class Agent;
  int ranks() const { return static_cast<int>(agents_.size()); }
  template <class Change>
  void look_after(Change change);
  bool may_act(int rank) const;
  std::vector<diagnosis::Worker> workers(bool with_calls) const;
  std::string find_deadlock() const;  // "" where there is none

  const std::function<void(const std::string&)> on_deadlock_;
  mutable std::mutex mutex_;
  std::vector<std::vector<Agent*>> agents_;  // of each rank
  std::unique_ptr<std::atomic<bool>[]> has_left_;
};

}  // namespace adjoin::threads
