#include "adjoin/comm/mpi/group.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "adjoin/base/hash.hpp"

namespace adjoin::mpi {

std::shared_ptr<Group> Group::of_world(const std::shared_ptr<MpiShared>& shared) {
  std::vector<int> all(static_cast<size_t>(shared->world_size));
  std::iota(all.begin(), all.end(), 0);
  auto world = std::make_shared<Group>(shared, ++shared->worlds_made, std::move(all));
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world->comm_), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(world->comm_, MPI_ERRORS_RETURN);
  return world;
}

std::shared_ptr<Group> Group::subset(std::span<const int> ranks, const Agent& agent, const Call& call) {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(world_ranks_[static_cast<size_t>(rank)]);
  auto made = std::make_shared<Group>(shared_, next_id(ranks), std::move(members));
  const Watched watched(agent, made->entry_, call);
  // Threads of a rank may make groups of other members at the same time, which their tags keep apart.
  const int tag = static_cast<int>(hash_of(ranks) % kMaxTag);
  MPI_Group all, some;
  MPI_Comm_group(comm_, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  const int code = MPI_Comm_create_group(comm_, some, tag, &made->comm_);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  check_mpi(code, call.name);
  MPI_Comm_set_errhandler(made->comm_, MPI_ERRORS_RETURN);
  return made;
}

Group::Group(std::shared_ptr<MpiShared> shared, uint64_t id, std::vector<int> world_ranks)
    : shared_(std::move(shared)), id_(id), world_ranks_(std::move(world_ranks)) {
  if (!shared_->own) return;
  entry_ = shared_->table.take_group(id_, world_ranks_);
  if (entry_) return;
  const bool is_large = world_ranks_.size() > GroupEntry::kMostMembers;
  is_large ? shared_->note_lack_of_room("members of a group", GroupEntry::kMostMembers)
           : shared_->note_lack_of_room("groups", ProcessEntry::kMostGroups);
}

Group::~Group() {
  if (shared_->own && entry_) free_group(*entry_);
  if (comm_ != MPI_COMM_NULL && mpi_is_alive()) MPI_Comm_free(&comm_);
}

bool Group::spans_hosts() const {
  const auto host = [this](int rank) { return shared_->host_of[static_cast<size_t>(rank)]; };
  return std::ranges::any_of(world_ranks_, [&](int rank) { return host(rank) != host(world_ranks_.front()); });
}

/// The same number on all members of the subset, who make their groups in one order.
uint64_t Group::next_id(std::span<const int> ranks) {
  const std::lock_guard lock(mutex_);
  return hash_of(ranks, mix(id_) + subsets_made_[{ranks.begin(), ranks.end()}]++);
}

}  // namespace adjoin::mpi
