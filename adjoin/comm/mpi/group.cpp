#include "adjoin/comm/mpi/group.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "adjoin/base/hash.hpp"
#include "adjoin/comm/mpi/process_world.hpp"

namespace adjoin::mpi {

using State = AgentEntry::State;

namespace {

/// A count has one writer, as a rank is in one call of a group at a time.
void increase(std::atomic<uint64_t>& count, int64_t number) {
  count.store(count.load(std::memory_order_relaxed) + static_cast<uint64_t>(number), std::memory_order_release);
}

/// A collective by one algorithm is counted apart from the same one by another algorithm, or by none: their messages never
/// meet.
int what_of(const Call& call) {
  const uint64_t algorithm = call.algorithm.empty() ? 0 : hash_of(call.algorithm) % (1 << 20) + 1;
  return static_cast<int>(algorithm << 8) | static_cast<int>(*call.collective);
}

}  // namespace

Agent::Agent(std::shared_ptr<MpiShared> shared, bool is_for_any_thread, bool is_ranks_own)
    : shared_(std::move(shared)),
      entry_(shared_->own() ? shared_->own()->take_agent() : nullptr),
      owner_(is_for_any_thread),
      is_ranks_own_(is_ranks_own) {
  if (!entry_) shared_->note_lack_of_room("threads", ProcessEntry::kMostAgents);
}

Agent::~Agent() {
  if (shared_->own() && entry_) entry_->change(State::free);
}

void Agent::rest(bool rests) noexcept {
  if (!shared_->own() || !entry_ || (rests && !owner_.is_here())) return;
  entry_->change(rests ? State::rests : State::computes);
}

/// Adds to the counts of the call.
void Watched::add_to(std::atomic<uint64_t> Count::*counted, int64_t number) {
  if (!counts_) return;
  const auto visit = [&](int peer, uint64_t key, uint64_t peers_key) {
    Count* count = counts_->make(peer, key, peers_key);
    count ? increase(count->*counted, number)
          : shared_.note_lack_of_room("peers and tags of messages", counts_->of.size());
    return count;
  };
  if (of_all_)
    increase(of_all_->*counted, number);
  else if (call_.collective || call_.name == "subset") {
    const uint64_t key = key_of(Count::kAll, call_.collective ? what_of(call_) : Count::kMaking);
    of_all_ = visit(Count::kAll, key, key);
  }
  for (const Message& m : call_.messages)
    visit(m.peer, key_of(m.peer, m.tag, m.is_send()), key_of(call_.rank, m.tag, !m.is_send()));
}

Watched::Watched(const Agent& agent, const GroupEntry* group, const Call& call, Part part)
    : shared_(*agent.shared_), call_(call) {
  if (!shared_.own()) return;
  agent_ = agent.entry_;
  const int place = group ? shared_.table.place_of(*group) : -1;
  if (group) counts_ = &shared_.own()->counts[static_cast<size_t>(place)];
  part == Part::all ? add_to(&Count::begun) : add_to(&Count::ended, -1);
  if (!agent_) return;
  agent_->group.store(place, std::memory_order_relaxed);
  agent_->record.note(call);
  agent_->change(State::calls);
}

Watched::~Watched() {
  if (agent_) agent_->change(State::computes);
  add_to(&Count::ended);
}

/// The time during which a process makes one group and no other.
///
/// When threads of a process make groups at the same time, OpenMPI serves the groups in the order of their parents, so
/// processes may wait for each other in a circle. Hence the members' locks are taken in one order: a token goes through the
/// members by their ranks in the world. Each one that receives it takes the lock of its process and then passes the token on.
class Group::Turn {
 public:
  Turn(const Group& parent, std::span<const int> ranks, uint64_t hash)
      : lock_(parent.shared_->making, std::defer_lock) {
    std::vector<int> order(ranks.begin(), ranks.end());
    std::ranges::sort(order, {}, [&](int rank) { return parent.world_ranks_[static_cast<size_t>(rank)]; });
    const auto world_rank = [&](int rank) { return parent.world_ranks_[static_cast<size_t>(rank)]; };
    const auto me =
        std::ranges::find_if(order, [&](int rank) { return world_rank(rank) == parent.shared_->world_rank; });
    const int tag = tag_of(parent.comm_, hash);
    if (me != order.begin())
      check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, *(me - 1), tag, parent.comm_, MPI_STATUS_IGNORE), "subset");
    lock_.lock();
    if (me + 1 != order.end()) check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, *(me + 1), tag, parent.comm_), "subset");
  }

 private:
  /// Above the tags of messages. OpenMPI has 2^31 tags, so two groups hardly ever share one.
  static int tag_of(MPI_Comm comm, uint64_t hash) {
    constexpr uint64_t kFirst = kMaxTag + 16;
    int* most = nullptr;
    int is_known = 0;
    MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &is_known);
    const auto last = static_cast<uint64_t>(is_known != 0 ? *most : 32767);
    return static_cast<int>(kFirst + hash % (last - kFirst));
  }

  std::unique_lock<std::mutex> lock_;
};

std::shared_ptr<Group> Group::of_world(const std::shared_ptr<MpiShared>& shared) {
  auto world = std::make_shared<Group>(shared, ++shared->worlds_made, all_ranks(shared->world_size));
  check_mpi(MPI_Comm_dup(shared->job, &world->comm_), "MPI_Comm_dup");
  world->begin();
  return world;
}

std::shared_ptr<Group> Group::subset(std::span<const int> ranks, const Agent& agent, const Call& call) {
  std::vector<int> members;
  for (const int rank : ranks) members.push_back(world_ranks_[static_cast<size_t>(rank)]);
  auto made = std::make_shared<Group>(shared_, next_id(ranks), std::move(members));
  const Watched watched(agent, made->entry_, call);
  // Threads of a rank may make groups with other members at the same time; their tags keep these apart.
  const uint64_t hash = hash_of(ranks);
  const int tag = static_cast<int>(hash % kMaxTag);
  const Turn turn(*this, ranks, hash);
  MPI_Group all, some;
  check_mpi(MPI_Comm_group(comm_, &all), call.name);
  check_mpi(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), call.name);
  const int code = MPI_Comm_create_group(comm_, some, tag, &made->comm_);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  check_mpi(code, call.name);
  made->begin();
  return made;
}

Group::Group(std::shared_ptr<MpiShared> shared, uint64_t id, std::vector<int> world_ranks)
    : shared_(std::move(shared)), id_(id), world_ranks_(std::move(world_ranks)) {
  if (!shared_->own() || id_ == 0) return;
  entry_ = shared_->table.take_group(id_, world_ranks_);
  if (entry_) return;
  const bool is_large = world_ranks_.size() > GroupEntry::kMostMembers;
  is_large ? shared_->note_lack_of_room("members of a group", GroupEntry::kMostMembers)
           : shared_->note_lack_of_room("groups", ProcessEntry::kMostGroups);
}

void Group::begin() {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  rank_ = rank_in(comm_);
  if (spans_hosts())
    make_parts();
  else if (shared_->host_world)
    meet();
}

void Group::meet() {
  CommMeeting meeting(comm_);
  in_memory_ = host::make_group(shared_->host_world, meeting, world_ranks_);
}

/// The group of this group's ranks with equal `color`, not watched; ranks with MPI_UNDEFINED are in none. Called on all ranks.
std::shared_ptr<Group> Group::split(int color) const {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, color, rank_, &comm), "MPI_Comm_split");
  const std::vector<int> colors = gather_all(comm_, color);
  if (comm == MPI_COMM_NULL) return nullptr;
  std::vector<int> members;
  for (size_t rank = 0; rank < colors.size(); ++rank)
    if (colors[rank] == color) members.push_back(world_ranks_[rank]);
  auto part = std::make_shared<Group>(shared_, /*id=*/0, std::move(members));
  part->comm_ = comm;
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  part->rank_ = rank_in(comm);
  return part;
}

/// All ranks of a host that share memory form a part; where they share none, each rank is a part.
void Group::make_parts() {
  const int host = shared_->host_of[static_cast<size_t>(shared_->world_rank)];
  const auto own = split(shared_->host_world ? host : shared_->world_size + rank_);
  int leader = rank_;
  check_mpi(MPI_Bcast(&leader, 1, MPI_INT, 0, own->comm_), "MPI_Bcast");
  const bool is_alone = own->world_ranks_.size() == 1;
  if (!is_alone) own->meet();
  std::vector<int> leader_of = gather_all(comm_, leader);
  int all_have = is_alone || own->in_memory_ ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all_have, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce");
  if (all_have == 0 || leader_of == all_ranks(std::ssize(leader_of))) return;
  auto leaders = split(leader == rank_ ? 0 : MPI_UNDEFINED);
  parts_ = std::make_unique<HostParts>(
      HostParts{{std::move(leader_of), leader}, is_alone ? nullptr : own, std::move(leaders)});
}

Group::~Group() {
  if (shared_->own() && entry_) free_group(*entry_);
  if (comm_ != MPI_COMM_NULL && mpi_is_alive()) MPI_Comm_free(&comm_);
}

bool Group::spans_hosts() const {
  const auto host = [this](int rank) { return shared_->host_of[static_cast<size_t>(rank)]; };
  return std::ranges::any_of(world_ranks_, [&](int rank) { return host(rank) != host(world_ranks_.front()); });
}

bool Group::is_one_a_host() const {
  std::set<int> hosts;
  for (const int rank : world_ranks_) hosts.insert(shared_->host_of[static_cast<size_t>(rank)]);
  return hosts.size() > 1 && hosts.size() == world_ranks_.size();
}

/// The same number on all members of the subset, which make their groups in the same order.
uint64_t Group::next_id(std::span<const int> ranks) {
  const std::lock_guard lock(mutex_);
  return hash_of(ranks, mix(id_) + subsets_made_[{ranks.begin(), ranks.end()}]++);
}

}  // namespace adjoin::mpi
