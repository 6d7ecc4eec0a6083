#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "adjoin/comm/host/host_backend.hpp"
#include "adjoin/comm/threads/world.hpp"

namespace adjoin {

namespace threads {

/// A group of threads of this process.
class Group final : public host::Group {
 public:
  static std::shared_ptr<Group> make(std::shared_ptr<World> world, std::vector<int> world_ranks);
  /// The next group that `rank`, a member, forms with `ranks` of this one; each member calls this once per group.
  std::shared_ptr<Group> subset(int rank, std::span<const int> ranks);

  World& world() const { return *thread_world_; }

 private:
  struct Forming {
    std::shared_ptr<Group> group;
    size_t joined = 0;
  };

  Group(std::shared_ptr<World> world, std::vector<int> world_ranks);

  const std::shared_ptr<World> thread_world_;
  std::mutex mutex_;
  std::map<std::pair<std::vector<int>, uint64_t>, Forming> forming_;  // by members, and by how many came before
  std::map<std::pair<std::vector<int>, int>, uint64_t> made_;         // by members and rank: how many it has made
};

}  // namespace threads

/// One worker's view of a group of threads of this process. A deadlock ends the world at once: all ranks throw
/// CommunicationError with every pending call.
class ThreadBackend final : public HostBackend {
 public:
  ThreadBackend(std::shared_ptr<threads::Group> group, std::shared_ptr<threads::Agent> agent, int rank);

  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void abort(std::string_view reason) noexcept override;
  ThreadOwner* owner() override { return &agent_->owner(); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;
  void rest(bool rests) noexcept override;
  bool fail(std::exception_ptr cause) noexcept override;
  bool is_checked() const override { return group_->world().is_checked(); }

 private:
  /// The agent as a waiter.
  struct AgentWaiter final : host::Waiter {
    AgentWaiter(threads::World& of, threads::Agent& waiting) : world(of), agent(waiting) {}
    void step_aside() override { world.step_aside(agent); }
    void sleep(host::Parking& parking, const host::Waiting& waiting) override { world.sleep(agent, parking, waiting); }
    threads::World& world;
    threads::Agent& agent;
  };

  host::Waiter& waiter() override { return waiter_; }

  const std::shared_ptr<threads::Group> group_;
  const std::shared_ptr<threads::Agent> agent_;
  AgentWaiter waiter_;
};

/// The backends of a new world, one for each of its ranks.
struct ThreadWorld {
  /// The arguments are those of threads::World.
  explicit ThreadWorld(int ranks, std::chrono::milliseconds deadline = std::chrono::minutes(5),
                       bool is_checked = false);
  std::shared_ptr<Backend> backend(int rank) const;
  /// Records that the thread of `rank` has returned and will never call again.
  void depart(int rank) const;

  std::shared_ptr<threads::World> world;
  std::shared_ptr<threads::Group> group;
  std::vector<std::shared_ptr<threads::Agent>> agents;
};

}  // namespace adjoin
