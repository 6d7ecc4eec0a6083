#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/thread_owner.hpp"
#include "adjoin/comm/host/group.hpp"
#include "adjoin/comm/mpi/host_parts.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

/// One thread of this process that may call, and its entry in the table of the host.
class Agent {
 public:
  Agent(std::shared_ptr<MpiShared> shared, bool is_for_any_thread, bool is_ranks_own = false);
  ~Agent();

  ThreadOwner& owner() { return owner_; }
  /// Whether it is the thread that the rank was launched on.
  bool is_ranks_own() const { return is_ranks_own_; }
  void rest(bool rests) noexcept;

 private:
  friend class Watched;

  const std::shared_ptr<MpiShared> shared_;
  AgentEntry* const entry_;  // nullptr where the table had no room; invalid once the table is gone
  ThreadOwner owner_;
  const bool is_ranks_own_;
};

/// Shows a call to the watchdog for as long as this object lives.
class Watched : NotCopied {
 public:
  /// all: a whole call. end: waiting for the end of a send whose beginning was watched before; this needs no peer to
  /// act.
  enum class Part { all, end };

  /// `group` is the group on which the call is made, or which it makes; nullptr where the table had no room for it.
  /// Cost: some tens of nanoseconds: some twenty stores, and a few more for each message
  Watched(const Agent& agent, const GroupEntry* group, const Call& call, Part part = Part::all);
  ~Watched();

 private:
  void add_to(std::atomic<uint64_t> Count::*counted, int64_t number = 1);

  const MpiShared& shared_;
  const Call& call_;
  AgentEntry* agent_ = nullptr;
  Counts* counts_ = nullptr;
  Count* of_all_ = nullptr;  // of a collective, once found
};

/// One group of ranks, shared by all threads of this process: MPI's communicator and the entry in the table of the
/// host.
class Group {
 public:
  /// The group of all ranks; called by all.
  static std::shared_ptr<Group> of_world(const std::shared_ptr<MpiShared>& shared);
  /// The group of `ranks` of this one; called by its members only, on the agent's thread.
  std::shared_ptr<Group> subset(std::span<const int> ranks, const Agent& agent, const Call& call);

  /// `id` is the same on all members; 0 for a group that is not watched.
  Group(std::shared_ptr<MpiShared> shared, uint64_t id, std::vector<int> world_ranks);
  ~Group();

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  /// nullptr where its ranks share no memory.
  const std::shared_ptr<host::Group>& in_memory() const { return in_memory_; }
  /// Set for a group over several hosts; nullptr where no two of its ranks share memory.
  const HostParts* parts() const { return parts_.get(); }
  const GroupEntry* entry() const { return entry_; }  // nullptr where the table had no room
  std::span<const int> world_ranks() const { return world_ranks_; }
  bool spans_hosts() const;
  bool is_one_a_host() const;  ///< each of several ranks is on another host
  const std::shared_ptr<MpiShared>& shared() const { return shared_; }

 private:
  class Turn;
  /// What follows once MPI has made the group, on all its members.
  void begin();
  /// Begins to use the memory that its ranks share.
  void meet();
  std::shared_ptr<Group> split(int color) const;
  void make_parts();
  uint64_t next_id(std::span<const int> ranks);

  const std::shared_ptr<MpiShared> shared_;
  const uint64_t id_;
  const std::vector<int> world_ranks_;
  GroupEntry* entry_ = nullptr;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  std::shared_ptr<host::Group> in_memory_;
  std::unique_ptr<HostParts> parts_;
  std::mutex mutex_;
  std::map<std::vector<int>, uint64_t> subsets_made_;
};

}  // namespace adjoin::mpi
