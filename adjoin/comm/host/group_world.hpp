#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/cores.hpp"
#include "adjoin/comm/host/notice.hpp"
#include "adjoin/comm/host/shared_world.hpp"

namespace adjoin::host {

/// Processes cannot share memory; the same text on all of them.
class NoSharedMemory : public CommunicationError {
  using CommunicationError::CommunicationError;
};

/// The world of one group of processes, which ends by itself: its ranks get an error, and their other groups go on.
///
/// There is no thread that watches. A rank that sleeps looks around ten times a second: whether a peer that it waits for has
/// died or returned, and whether it is one of several that wait for each other.
class GroupWorld final : public SharedWorld {
 public:
  /// Makes the group of the ranks that meet, which have these ranks in a world of `world_size`, after
  /// begin_to_share(). Called on all.
  /// Throws: NoSharedMemory on all ranks; CommunicationError where a rank does not come
  static std::shared_ptr<Group> meet(Meeting& meeting, std::vector<int> world_ranks, int world_size);

  /// Gives this process memory that it can share, if it has none; its tensors are in that memory from then on.
  /// Throws: CommunicationError where there can be none
  static void begin_to_share();

  /// "rank 1 (process 17) has died", or "… has returned", of one of these ranks of the world with which this process has a group and whose
  /// process is gone; "" of none.
  static std::string who_died(std::span<const int> world_ranks);

  void end(const std::string& diagnosis) noexcept override;
  bool has_left(int world_rank) const override;
  bool has_died(int world_rank) const override;

  /// Says that this process ends as it should, so that no peer takes it for dead. For the end of the program.
  static void leave_host() noexcept;

 private:
  friend class GroupWaiter;

  struct Member {
    SharedMemory::Place place;
    int64_t pid = 0, start = 0;
  };

  using SharedWorld::SharedWorld;
  std::string reason_of_end() const override { return std::string(std::string_view(ending_->text)); }
  std::string text_of_end(int world_rank) const;
  const Member& member(int world_rank) const { return members_.at(world_rank); }

  std::map<int, Member> members_;  // by rank in the world
  std::map<int, int> rank_of_;     // in the group
  std::weak_ptr<Group> group_;
  Group::Ending* ending_ = nullptr;  // in the group's memory, as is:
  ThreadCores placement_{{}};
};

/// How one call of a rank waits.
class GroupWaiter final : public Waiter {
 public:
  using FindWhere = std::function<std::optional<Where>()>;

  /// `rank` is the caller's in the group. `find_where` finds the line that made the call.
  GroupWaiter(GroupWorld& world, int rank, FindWhere find_where)
      : world_(world), rank_(rank), find_where_(std::move(find_where)) {}

  /// A call that waits longer ends the group.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_.store(timeout); }
  std::chrono::milliseconds timeout() const { return timeout_.load(); }

  void sleep(Parking& parking, const Waiting& waiting) override;
  void sleep_through(Parking& parking, const Waiting& waiting) override;
  std::optional<Where> where() override { return find_where_(); }

 private:
  class Look;
  void step_aside() override { world_.placement_.step_aside(rank_); }

  GroupWorld& world_;
  const int rank_;
  const FindWhere find_where_;
  std::atomic<std::chrono::milliseconds> timeout_{std::chrono::minutes(30)};
};

}  // namespace adjoin::host
