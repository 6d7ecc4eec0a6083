#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "adjoin/comm/mpi/pending_table.hpp"
#include "adjoin/comm/mpi/shared.hpp"
#include "adjoin/comm/thread_owner.hpp"

namespace adjoin::mpi {

/// One group of ranks, as all threads of this process share it: MPI's communicator and the entry in the host's table.
class Group {
 public:
  /// Takes the communicator over. `id` is the same on all members.
  Group(std::shared_ptr<MpiShared> shared, MPI_Comm comm, uint64_t id, std::vector<int> world_ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  MPI_Comm comm() const { return comm_; }
  uint64_t id() const { return id_; }
  GroupEntry* entry() const { return entry_; }
  std::span<const int> world_ranks() const { return world_ranks_; }
  const std::shared_ptr<MpiShared>& shared() const { return shared_; }

  /// The group of `ranks` of this one; called by its members only.
  std::shared_ptr<Group> subset(std::span<const int> ranks);

 private:
  const std::shared_ptr<MpiShared> shared_;
  MPI_Comm comm_;
  const uint64_t id_;
  const std::vector<int> world_ranks_;
  GroupEntry* entry_;
  std::mutex mutex_;
  std::map<std::vector<int>, uint64_t> subsets_made_;
};

/// One thread of this process that may call, and its entry in the host's table.
class Agent {
 public:
  Agent(std::shared_ptr<MpiShared> shared, bool is_for_any_thread);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  ThreadOwner& owner() { return owner_; }
  /// nullptr where the table has no room, or has gone.
  AgentEntry* entry() const;
  void rest(bool rests) noexcept;

 private:
  const std::shared_ptr<MpiShared> shared_;
  AgentEntry* entry_;
  ThreadOwner owner_;
};

}  // namespace adjoin::mpi
