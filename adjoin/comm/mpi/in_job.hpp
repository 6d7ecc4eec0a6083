#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/common_cause.hpp"
#include "adjoin/comm/mpi/group.hpp"

namespace adjoin::mpi {

/// A backend of a group for one thread of this process: in memory where its ranks share memory, else by MPI's messages.
std::shared_ptr<Backend> backend_on(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent);

/// What every backend of a process in an MPI job does alike, on top of a transport `Base`.
template <class Base>
class InJob : public Base {
 public:
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override {
    return backend_on(group_->subset(ranks, *agent_, call), agent_);
  }
  void abort(std::string_view reason) noexcept override { end(std::string(reason), 1, /*names_rank=*/true); }
  /// Operations that are running cannot be ended: their peers may be about to complete them.
  bool fail(std::exception_ptr cause) noexcept override {
    if (!cause) return false;
    end(message_of(cause), exit_code_of(cause), /*names_rank=*/!is_common(cause));
    return true;
  }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override {
    int level = 0;
    MPI_Query_thread(&level);
    require(
        level == MPI_THREAD_MULTIPLE,
        "for_thread: threads of one rank that communicate at the same time need MPI_THREAD_MULTIPLE, which this MPI "
        "does not provide");
    return backend_on(group_, std::make_shared<Agent>(group_->shared(), is_for_any_thread));
  }
  ThreadOwner* owner() override { return &agent_->owner(); }
  void rest(bool rests) noexcept override { agent_->rest(rests); }
  bool spans_hosts() const override { return group_->spans_hosts(); }
  bool is_checked() const override { return group_->shared()->options.checked; }

 protected:
  template <class... Arguments>
  InJob(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent, Arguments&&... of_base)
      : Base(std::forward<Arguments>(of_base)...), group_(std::move(group)), agent_(std::move(agent)) {}

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Agent> agent_;

 private:
  void end(const std::string& message, int exit_code, bool names_rank) noexcept {
    const MpiShared& shared = *group_->shared();
    if (!shared.is_guest()) shared.end_job(message, exit_code, names_rank);
    shared.end_diagnosed(names_rank ? "rank " + std::to_string(shared.world_rank) + ": " + message : message);
  }
};

}  // namespace adjoin::mpi
