#pragma once

#include <memory>

#include "adjoin/comm/mpi/pending_table.hpp"
#include "adjoin/comm/mpi/shared.hpp"
#include "adjoin/comm/thread_owner.hpp"

namespace adjoin::mpi {

/// One thread of this process that may call, and its entry in the host's table.
class Agent {
 public:
  Agent(std::shared_ptr<MpiShared> shared, bool is_for_any_thread);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  ThreadOwner& owner() { return owner_; }
  void rest(bool rests) noexcept;

 private:
  friend class Watched;

  const std::shared_ptr<MpiShared> shared_;
  AgentEntry* const entry_;  // nullptr where there was no room; gone with the table
  ThreadOwner owner_;
};

/// Shows the watchdog a call, for as long as it lives.
class Watched {
 public:
  /// `group` is where the call is, or what it makes; nullptr where the table had no room for it.
  /// Cost: some tens of nanoseconds: some twenty stores, and a few more for each message
  Watched(const Agent& agent, const GroupEntry* group, const Call& call);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  template <class Work>
  void for_each_count(Work work) const;

  const MpiShared& shared_;
  const Call& call_;
  AgentEntry* agent_ = nullptr;
  Counts* counts_ = nullptr;
};

}  // namespace adjoin::mpi
