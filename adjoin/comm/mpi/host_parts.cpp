#include "adjoin/comm/mpi/host_parts.hpp"

#include <algorithm>

#include "adjoin/base/reduction.hpp"
#include "adjoin/comm/mpi/process_backend.hpp"
#include "adjoin/comm/mpi/shared.hpp"
#include "adjoin/comm/mpi/transport.hpp"

namespace adjoin::mpi {

int HostParts::rank_in_part(int rank) const {
  return static_cast<int>(
      std::count(leader_of.begin(), leader_of.begin() + rank, leader_of[static_cast<size_t>(rank)]));
}

int HostParts::place_of_leader(int rank) const {
  int place = 0;
  for (int before = 0; before < leader_of[static_cast<size_t>(rank)]; ++before)
    if (leader_of[static_cast<size_t>(before)] == before) ++place;
  return place;
}

bool Transport::goes_by_parts(const Call& call) const {
  const Collective c = *call.collective;
  return group_->parts() && (c == Collective::barrier || c == Collective::broadcast || c == Collective::reduce ||
                             c == Collective::all_reduce);
}

/// A collective of this rank's part: the call of the user's, so that it is named so, with other buffers.
void Transport::call_in_part(const Call& call, Collective collective, ConstBuffer in, Buffer out, int root) {
  if (!part_) return;
  Call of_part = call;
  of_part.collective = collective;
  of_part.in = in;
  of_part.out = out;
  of_part.root = root;
  of_part.reduction = pairwise_of(call.reduction);
  part_->HostBackend::carry_out(of_part);
}

/// The same between the leaders; `root` is a place among them.
void Transport::call_between_leaders(const Call& call, Buffer buffer, int root) {
  if (!leaders_) return;
  // OpenMPI reduces to one rank and broadcasts, also where there are two, so that half of a cable is idle at a time.
  constexpr int64_t kLong = 64 << 10;
  Call of_leaders = call;
  of_leaders.in = of_leaders.out = buffer;
  of_leaders.root = root;
  of_leaders.reduction = pairwise_of(call.reduction);
  of_leaders.rank = leaders_->rank();
  of_leaders.size = leaders_->size();
  call.collective == Collective::all_reduce&& buffer.bytes() >= kLong ? leaders_->Backend::carry_out(of_leaders)
                                                                      : leaders_->call_in_pieces(of_leaders);
}

void Transport::call_by_parts(const Call& call) {
  const HostParts& parts = *group_->parts();
  const Buffer out = call.out;
  switch (*call.collective) {
    case Collective::barrier:
      call_in_part(call, Collective::barrier, {}, {}, -1);
      if (leaders_) check_mpi(MPI_Barrier(leaders_->comm_), call.name);
      return call_in_part(call, Collective::barrier, {}, {}, -1);
    case Collective::broadcast: {
      const bool has_root = parts.has(call.root);
      if (has_root) call_in_part(call, Collective::broadcast, out, out, parts.rank_in_part(call.root));
      call_between_leaders(call, out, parts.place_of_leader(call.root));
      if (!has_root) call_in_part(call, Collective::broadcast, out, out, 0);
      return;
    }
    case Collective::all_reduce:
      call_in_part(call, Collective::reduce, out, out, 0);
      call_between_leaders(call, out, -1);
      if (parts.is_leader()) finish_reduction(out, call.reduction, size_);
      return call_in_part(call, Collective::broadcast, out, out, 0);
    default:
      return reduce_by_parts(call);
  }
}

void Transport::reduce_by_parts(const Call& call) {
  const HostParts& parts = *group_->parts();
  const bool is_root = rank_ == call.root, has_root = parts.has(call.root);
  // The leader's sum lies where the result is to be, or else apart: what a rank gives is not written.
  const std::shared_ptr<void> room =
      parts.is_leader() && !is_root ? host_memory(static_cast<size_t>(call.in.bytes())) : nullptr;
  const Buffer sum = is_root ? call.out : Buffer{room.get(), call.in.count, call.in.type};
  if (part_)
    call_in_part(call, Collective::reduce, call.in, sum, 0);
  else if (sum.data != call.in.data)
    copy_bytes(sum.data, call.in.data, call.in.bytes());
  call_between_leaders(call, sum, parts.place_of_leader(call.root));
  if (!has_root) return;
  if (parts.is_leader()) finish_reduction(sum, call.reduction, size_);
  const int root = parts.rank_in_part(call.root);
  if (root == 0 || (!is_root && !parts.is_leader())) return;
  const Message message = is_root ? receive_of(call.out, 0, kCollectiveTag) : send_of(sum, root, kCollectiveTag);
  part_->HostBackend::exchange({&message, 1}, call);
}

}  // namespace adjoin::mpi
