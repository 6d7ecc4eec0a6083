#include "adjoin/comm/threads/thread_backend.hpp"

#include <algorithm>

namespace adjoin {

namespace threads {

Group::Group(std::shared_ptr<World> world, std::vector<int> world_ranks)
    : host::Group(world, world_ranks, memory_for(*world, world_ranks.size())), thread_world_(world) {}

std::shared_ptr<Group> Group::make(std::shared_ptr<World> world, std::vector<int> world_ranks) {
  const std::shared_ptr<Group> group(new Group(world, std::move(world_ranks)));
  world->watch(group);
  return group;
}

std::shared_ptr<Group> Group::subset(int rank, std::span<const int> ranks) {
  const std::vector<int> members(ranks.begin(), ranks.end());
  const std::lock_guard lock(mutex_);
  const auto key = std::make_pair(members, made_[{members, rank}]++);
  Forming& forming = forming_[key];
  if (!forming.group) {
    std::vector<int> world_ranks;
    for (const int member : members) world_ranks.push_back(world_rank(member));
    forming.group = make(thread_world_, std::move(world_ranks));
  }
  const auto group = forming.group;
  if (++forming.joined == members.size()) forming_.erase(key);
  return group;
}

}  // namespace threads

ThreadWorld::ThreadWorld(int ranks, std::chrono::milliseconds deadline, bool is_checked)
    : world(std::make_shared<threads::World>(ranks, deadline, is_checked)) {
  group = threads::Group::make(world, all_ranks(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    agents.push_back(std::make_shared<threads::Agent>(
        world->detector(), rank, ranks == 1 ? threads::Agent::Kind::of_any_thread : threads::Agent::Kind::of_launch));
}

std::shared_ptr<Backend> ThreadWorld::backend(int rank) const {
  return std::make_shared<ThreadBackend>(group, agents[static_cast<size_t>(rank)], rank);
}

void ThreadWorld::depart(int rank) const {
  world->detector().leave(*agents[static_cast<size_t>(rank)]);
}

ThreadBackend::ThreadBackend(std::shared_ptr<threads::Group> group, std::shared_ptr<threads::Agent> agent, int rank)
    : HostBackend(group, rank), group_(std::move(group)), agent_(std::move(agent)), waiter_(group_->world(), *agent_) {}

void ThreadBackend::abort(std::string_view reason) noexcept {
  group_->world().abort(agent_->rank(), reason);
}

std::shared_ptr<Backend> ThreadBackend::for_thread(bool is_for_any_thread) {
  auto agent = std::make_shared<threads::Agent>(
      group_->world().detector(), agent_->rank(),
      is_for_any_thread ? threads::Agent::Kind::of_any_thread : threads::Agent::Kind::of_user);
  return std::make_shared<ThreadBackend>(group_, std::move(agent), rank());
}

void ThreadBackend::rest(bool rests) noexcept {
  if (!rests || agent_->owner().is_here()) group_->world().detector().rest(*agent_, rests);
}

bool ThreadBackend::fail(std::exception_ptr cause) noexcept {
  group_->world().fail(agent_->rank(), cause);
  return true;
}

std::shared_ptr<Backend> ThreadBackend::subset(std::span<const int> ranks, const Call&) {
  if (group_->world().aborted()) group_->world().throw_aborted();
  const auto mine = std::ranges::find(ranks, rank()) - ranks.begin();
  return std::make_shared<ThreadBackend>(group_->subset(rank(), ranks), agent_, static_cast<int>(mine));
}

}  // namespace adjoin
