#pragma once

#include <memory>
#include <vector>

#include "adjoin/comm/backend.hpp"
#include "adjoin/comm/mpi/group.hpp"
#include "adjoin/comm/mpi/messages.hpp"

namespace adjoin::mpi {

/// MPI as a backend, for one thread of this process on one group.
class Transport final : public Backend {
 public:
  Transport(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(std::span<const Message> messages, const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void abort(std::string_view reason) noexcept override { group_->shared()->end_job(std::string(reason), 1); }
  bool fail(std::exception_ptr cause) noexcept override;
  void carry_out(const Call& call) override;
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;
  void check_thread(const Call& call) override { agent_->owner().check(call); }
  void rest(bool rests) noexcept override { agent_->rest(rests); }
  bool is_checked() const override { return options_.checked; }

 private:
  // MPI's own collectives; collectives.cpp.
  void broadcast(const Call& call);
  void reduce(const Call& call);
  void all_reduce(const Call& call);
  void gather(const Call& call);
  void scatter(const Call& call);
  void all_gather(const Call& call);
  void reduce_scatter(const Call& call);
  void all_to_all(const Call& call);

  /// Whether MPI can count the blocks of all ranks together.
  bool is_countable(const Call& call) const;
  const void* own_block(ConstBuffer all, const Call& call) const;
  MPI_Op operation_of(const Call& call) const;

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Agent> agent_;
  const MPI_Comm comm_;
  const MpiOptions& options_;
  int rank_ = 0, size_ = 1;
  Messages messages_;
  std::vector<Message> posted_;  // of an all_to_all, kept for the next
};

}  // namespace adjoin::mpi
