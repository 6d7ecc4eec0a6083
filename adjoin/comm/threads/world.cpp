#include "adjoin/comm/threads/world.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/comm/threads/group.hpp"

namespace adjoin::threads {

World::World(int ranks) : patience_(Patience::for_ranks(ranks)), departed_(static_cast<size_t>(ranks)) {}

void World::abort(std::string_view reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load()) return;
    reason_ = reason;
    aborted_.store(true);
  }
  wake_all();
}

std::string World::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void World::throw_aborted() const {
  throw CommunicationError("the world was aborted: " + reason());
}

void World::depart(int rank) noexcept {
  departed_[static_cast<size_t>(rank)].store(true);
  wake_all();
}

void World::watch(const std::shared_ptr<Group>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

void World::wake_all() noexcept {
  std::vector<std::weak_ptr<Group>> groups;
  {
    const std::lock_guard lock(mutex_);
    groups = groups_;
  }
  for (const auto& weak : groups)
    if (const auto group = weak.lock()) group->wake_all();
}

}  // namespace adjoin::threads
