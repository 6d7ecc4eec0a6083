#pragma once

#include <memory>
#include <vector>

namespace adjoin::mpi {

class Group;

/// A group over several hosts, divided into parts whose ranks reach each other's memory. A collective may go through memory
/// within a part, and by MPI between the first ranks of the parts, their leaders: so only one rank's data per host crosses the
/// network.
struct HostParts {
  bool has(int rank) const { return leader_of[static_cast<size_t>(rank)] == own_leader; }
  /// For a rank of the group: its rank in its part, and the rank of its leader among the leaders.
  int rank_in_part(int rank) const;
  int place_of_leader(int rank) const;

  std::shared_ptr<Group> own;      // the part of this rank; nullptr where this rank is alone in it
  std::shared_ptr<Group> leaders;  // nullptr where this rank is not a leader
  std::vector<int> leader_of;      // for each rank of the group
  int own_leader;
};

}  // namespace adjoin::mpi
