#pragma once

#include <memory>
#include <vector>

namespace adjoin::mpi {

class Group;

/// A group over several hosts as parts whose ranks reach each other's memory. A collective may go through memory within a part, and
/// on by MPI between the first ranks of the parts, their leaders: so what goes over the network is that of one rank a host.
struct HostParts {
  bool has(int rank) const { return leader_of[static_cast<size_t>(rank)] == own_leader; }
  /// Of a rank of the group: its rank in its part, and that of its leader among the leaders.
  int rank_in_part(int rank) const;
  int place_of_leader(int rank) const;

  std::shared_ptr<Group> own;      // the part of this rank; nullptr where that is all of it
  std::shared_ptr<Group> leaders;  // nullptr where this rank is none
  std::vector<int> leader_of;      // of each rank of the group
  int own_leader;
};

}  // namespace adjoin::mpi
