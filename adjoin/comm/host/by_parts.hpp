#pragma once

#include <vector>

#include "adjoin/comm/host/host_backend.hpp"

namespace adjoin::host {

/// A group over several hosts, divided into parts whose ranks reach each other's memory.
struct Parts {
  bool has(int rank) const { return leader_of[static_cast<size_t>(rank)] == own_leader; }
  /// For a rank of the group: its rank in its part, and the rank of its leader among the leaders.
  int rank_in_part(int rank) const;
  int place_of_leader(int rank) const;

  std::vector<int> leader_of;  // for each rank of the group: the first rank of its part
  int own_leader = 0;
};

/// Carries out a collective of such a group through memory within each part, and by messages between the leaders, which are the
/// first ranks of the parts: so only one rank's data per host crosses the network.
class ByParts {
 public:
  /// `part` is nullptr where this rank is alone in its part, and `leaders` where it is no leader.
  ByParts(const Parts& parts, HostBackend* part, Backend* leaders) : parts_(parts), part_(part), leaders_(leaders) {}

  /// Whether it carries out this collective; the same answer on all ranks.
  bool takes(const Call& call) const;
  void run(const Call& call) const;

 private:
  void reduce(const Call& call) const;
  void call_in_part(const Call& call, Collective collective, ConstBuffer in, Buffer out, int root) const;
  void call_between_leaders(const Call& call, ConstBuffer in, Buffer out, int root) const;
  Buffer blocks_of_part(const Call& call, Buffer all) const;
  void sum_of_part(const Call& call, Buffer sum) const;

  const Parts& parts_;
  HostBackend* const part_;
  Backend* const leaders_;
};

}  // namespace adjoin::host
