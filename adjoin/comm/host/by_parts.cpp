#include "adjoin/comm/host/by_parts.hpp"

#include <algorithm>

#include "adjoin/base/copying.hpp"
#include "adjoin/base/reduction.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/contract/host_memory.hpp"

namespace adjoin::host {

int Parts::rank_in_part(int rank) const {
  return static_cast<int>(
      std::count(leader_of.begin(), leader_of.begin() + rank, leader_of[static_cast<size_t>(rank)]));
}

int Parts::place_of_leader(int rank) const {
  int place = 0;
  for (int before = 0; before < leader_of[static_cast<size_t>(rank)]; ++before)
    if (leader_of[static_cast<size_t>(before)] == before) ++place;
  return place;
}

bool ByParts::takes(const Call& call) const {
  switch (*call.collective) {
    case Collective::barrier:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::all_reduce:
      return true;
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return std::ranges::is_sorted(parts_.leader_of);  // so that a part's blocks are contiguous
    default:
      return false;  // each block goes over the network once in any case
  }
}

namespace {

/// The user's call, so that it is reported as such, with other buffers.
Call with_buffers(const Call& call, ConstBuffer in, Buffer out, int root) {
  Call other = call;
  other.in = in;
  other.out = out;
  other.root = root;
  other.reduction = pairwise_of(call.reduction);
  return other;
}

}  // namespace

/// A collective within this rank's part.
void ByParts::call_in_part(const Call& call, Collective collective, ConstBuffer in, Buffer out, int root) const {
  if (!part_) return;
  Call of_part = with_buffers(call, in, out, root);
  of_part.collective = collective;
  if (collective == Collective::gather || collective == Collective::scatter)
    of_part.counts = call.counts.subspan(static_cast<size_t>(parts_.own_leader), static_cast<size_t>(part_->size()));
  part_->HostBackend::run_collective(of_part);
}

/// The same collective between the leaders; `root` is a rank among them.
void ByParts::call_between_leaders(const Call& call, ConstBuffer in, Buffer out, int root) const {
  if (!leaders_) return;
  Call of_leaders = with_buffers(call, in, out, root);
  of_leaders.rank = leaders_->rank();
  of_leaders.size = leaders_->size();
  std::vector<int64_t> counts;
  for (size_t rank = 0; rank < call.counts.size(); ++rank) {
    if (parts_.leader_of[rank] == static_cast<int>(rank)) counts.push_back(0);
    counts.back() += call.counts[rank];
  }
  of_leaders.counts = counts;
  leaders_->Backend::run_collective(of_leaders);
}

void ByParts::run(const Call& call) const {
  const Buffer out = call.out;
  switch (*call.collective) {
    case Collective::barrier:
      call_in_part(call, Collective::barrier, {}, {}, -1);
      call_between_leaders(call, {}, {}, -1);
      return call_in_part(call, Collective::barrier, {}, {}, -1);
    case Collective::broadcast: {
      const bool has_root = parts_.has(call.root);
      if (has_root) call_in_part(call, Collective::broadcast, out, out, parts_.rank_in_part(call.root));
      call_between_leaders(call, out, out, parts_.place_of_leader(call.root));
      if (!has_root) call_in_part(call, Collective::broadcast, out, out, 0);
      return;
    }
    case Collective::all_reduce:
      call_in_part(call, Collective::reduce, out, out, 0);
      call_between_leaders(call, out, out, -1);
      if (leaders_) finish_reduction(out, call.reduction, call.size);
      return call_in_part(call, Collective::broadcast, out, out, 0);
    case Collective::all_gather: {
      const Buffer own = blocks_of_part(call, out);
      if (part_)
        call_in_part(call, Collective::gather, call.in, own, 0);
      else
        copy_bytes(own.data, call.in.data, call.in.bytes());
      call_between_leaders(call, own, out, -1);
      return call_in_part(call, Collective::broadcast, out, out, 0);
    }
    case Collective::reduce_scatter: {
      const std::shared_ptr<void> room = leaders_ ? host_memory(static_cast<size_t>(call.in.bytes())) : nullptr;
      const Buffer sum{room.get(), call.in.count, call.in.type};
      sum_of_part(call, sum);
      const Buffer own = part_ ? blocks_of_part(call, sum) : out;
      call_between_leaders(call, sum, own, -1);
      if (leaders_) finish_reduction(own, call.reduction, call.size);
      return call_in_part(call, Collective::scatter, own, out, 0);
    }
    default:
      return reduce(call);
  }
}

/// Those elements of the blocks `all` that belong to this rank's part.
Buffer ByParts::blocks_of_part(const Call& call, Buffer all) const {
  const auto first = static_cast<size_t>(parts_.own_leader), ranks = part_ ? static_cast<size_t>(part_->size()) : 1;
  return all.slice(algorithm::start_of(call.counts, parts_.own_leader),
                   algorithm::total_of(call.counts.subspan(first, ranks)));
}

/// Adds up the inputs of this part's ranks in `sum` on its leader.
void ByParts::sum_of_part(const Call& call, Buffer sum) const {
  if (part_)
    call_in_part(call, Collective::reduce, call.in, sum, 0);
  else
    copy_bytes(sum.data, call.in.data, call.in.bytes());
}

void ByParts::reduce(const Call& call) const {
  const bool is_root = call.rank == call.root, has_root = parts_.has(call.root);
  // The leader's sum is stored where the result goes, else in its own memory: a rank's input is never written.
  const std::shared_ptr<void> room = leaders_ && !is_root ? host_memory(static_cast<size_t>(call.in.bytes())) : nullptr;
  const Buffer sum = is_root ? call.out : Buffer{room.get(), call.in.count, call.in.type};
  sum_of_part(call, sum);
  call_between_leaders(call, sum, sum, parts_.place_of_leader(call.root));
  if (!has_root) return;
  if (leaders_) finish_reduction(sum, call.reduction, call.size);
  const int root = parts_.rank_in_part(call.root);
  if (root == 0 || (!is_root && !leaders_)) return;
  const Message message = is_root ? receive_of(call.out, 0, kCollectiveTag) : send_of(sum, root, kCollectiveTag);
  part_->HostBackend::exchange({&message, 1}, call);
}

}  // namespace adjoin::host
