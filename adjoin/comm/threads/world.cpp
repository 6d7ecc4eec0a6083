#include "adjoin/comm/threads/world.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/threads/group.hpp"

namespace adjoin::threads {

namespace {

/// Longer than anybody waits, and short enough for clocks to add.
constexpr std::chrono::hours kLongest(24 * 365 * 10);

}  // namespace

World::World(int ranks, std::chrono::milliseconds deadline, bool is_checked)
    : size_(ranks),
      patience_(Patience::for_ranks(ranks)),
      placement_(ranks),
      deadline_(std::min<std::chrono::milliseconds>(deadline, kLongest)),
      is_checked_(is_checked),
      detector_(ranks, [this](const std::string& report) { end(report); }) {}

void World::abort(std::string_view reason, int rank) noexcept {
  end(reason, rank);
}

void World::end(const std::string& diagnosis) noexcept {
  end(diagnosis, /*culprit=*/-1);
}

void World::end(std::string_view reason, int culprit) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load()) return;
    reason_ = reason;
    culprit_.store(culprit);
    aborted_.store(true);
  }
  for (const auto& group : groups()) group->wake_all();
}

std::string World::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void World::throw_aborted() const {
  throw CommunicationError((diagnosed() ? "" : "the world was aborted: ") + reason());
}

void World::sleep(Agent& agent, Parking& parking, const Waiting& waiting) {
  const auto is_over = [&] { return waiting.is_over() || aborted(); };
  if (is_over()) return;
  detector_.block(agent, waiting);
  if (!parking.sleep(is_over, deadline_)) {
    end(detector_.look("no progress within the deadline of " + diagnosis::text_of(deadline_)));
  }
  detector_.unblock(agent);
}

void World::watch(const std::shared_ptr<Group>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

std::vector<std::shared_ptr<Group>> World::groups() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Group>> living;
  for (const auto& weak : groups_)
    if (auto group = weak.lock()) living.push_back(std::move(group));
  return living;
}

}  // namespace adjoin::threads
