#include "adjoin/comm/mpi/group.hpp"

#include <cstdio>
#include <utility>

#include "adjoin/base/hash.hpp"

namespace adjoin::mpi {

namespace {

/// The same number on all members, who make their groups in one order.
uint64_t id_of(uint64_t parent, std::span<const int> ranks, uint64_t nth) {
  return hash_of(ranks, mix(parent) + nth) | 1;  // 0 is no group
}

void warn_of_room(const char* what, int most) {
  std::fprintf(stderr,
               "adjoin: warning: more than %d %s communicate at once; deadlocks among the others are not told\n", most,
               what);
}

}  // namespace

Group::Group(std::shared_ptr<MpiShared> shared, MPI_Comm comm, uint64_t id, std::vector<int> world_ranks)
    : shared_(std::move(shared)), comm_(comm), id_(id), world_ranks_(std::move(world_ranks)) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  entry_ = shared_->own ? take_group(shared_->table, *shared_->own, id_, world_ranks_) : nullptr;
  static std::once_flag warned;
  if (shared_->own && !entry_) std::call_once(warned, warn_of_room, "groups", ProcessEntry::kMostGroups);
}

Group::~Group() {
  if (shared_->own) free_group(entry_);
  if (mpi_is_alive()) MPI_Comm_free(&comm_);
}

std::shared_ptr<Group> Group::subset(std::span<const int> ranks) {
  uint64_t nth;
  {
    const std::lock_guard lock(mutex_);
    nth = subsets_made_[{ranks.begin(), ranks.end()}]++;
  }
  // Threads of a rank may make groups of other members at the same time, which their tags keep apart.
  const int tag = static_cast<int>(hash_of(ranks) % kMaxTag);
  MPI_Group all, some;
  MPI_Comm comm;
  MPI_Comm_group(comm_, &all);
  MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
  const int code = MPI_Comm_create_group(comm_, some, tag, &comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  check_mpi(code, "subset");
  std::vector<int> world_ranks;
  for (const int rank : ranks) world_ranks.push_back(world_ranks_[static_cast<size_t>(rank)]);
  return std::make_shared<Group>(shared_, comm, id_of(id_, ranks, nth), std::move(world_ranks));
}

Agent::Agent(std::shared_ptr<MpiShared> shared, bool is_for_any_thread)
    : shared_(std::move(shared)),
      entry_(shared_->own ? take_agent(*shared_->own) : nullptr),
      owner_(is_for_any_thread) {
  static std::once_flag warned;
  if (shared_->own && !entry_) std::call_once(warned, warn_of_room, "threads", ProcessEntry::kMostAgents);
}

Agent::~Agent() {
  if (shared_->own) free_agent(*shared_->own, entry_);
}

AgentEntry* Agent::entry() const {
  return shared_->own ? entry_ : nullptr;
}

void Agent::rest(bool rests) noexcept {
  if (!entry() || (rests && !owner_.is_here())) return;
  write_rest(*entry_, rests);
}

}  // namespace adjoin::mpi
