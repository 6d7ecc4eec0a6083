#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

namespace adjoin::mpi {

class Group;

/// A group over several hosts as parts whose ranks reach each other's memory. A collective may go through memory within a part, and
/// on by MPI between the first ranks of the parts, their leaders: so what goes over the network is that of one rank a host.
struct HostParts {
  /// The part of this rank is `own`, of which it is rank `rank`.
  HostParts(std::shared_ptr<Group> of_this_rank, std::vector<int> leaders_of_ranks, MPI_Comm between_leaders, int rank);
  ~HostParts();
  HostParts(const HostParts&) = delete;
  HostParts& operator=(const HostParts&) = delete;

  bool is_leader() const { return leaders != MPI_COMM_NULL; }
  bool has(int rank) const { return leader_of[static_cast<size_t>(rank)] == own_leader; }
  /// Of a rank of the group: its rank in its part, and that of its leader among the leaders.
  int rank_in_part(int rank) const;
  int place_of_leader(int rank) const;

  const std::shared_ptr<Group> own;  // nullptr for a part of one rank
  const std::vector<int> leader_of;  // of each rank of the group
  const MPI_Comm leaders;            // MPI_COMM_NULL where this rank is none
  const int own_leader;
};

}  // namespace adjoin::mpi
