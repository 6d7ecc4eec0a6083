#include "adjoin/comm/mpi/transport.hpp"

#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::mpi {

Transport::Transport(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent)
    : group_(std::move(group)),
      agent_(std::move(agent)),
      comm_(group_->comm()),
      options_(group_->shared()->options),
      box_types_(options_.largest_piece) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

void Transport::exchange(std::span<const Message> messages, const Call& call) {
  if (call.collective) return carry(messages, call);  // which is watched itself
  const Watched watched(*agent_, group_->entry(), call);
  carry(messages, call);
}

std::shared_ptr<Backend> Transport::subset(std::span<const int> ranks, const Call& call) {
  return std::make_shared<Transport>(group_->subset(ranks, *agent_, call), agent_);
}

std::shared_ptr<Backend> Transport::for_thread(bool is_for_any_thread) {
  int level = 0;
  MPI_Query_thread(&level);
  require(level == MPI_THREAD_MULTIPLE,
          "threads of one rank that communicate at once need MPI at thread level multiple, which it does not offer");
  return std::make_shared<Transport>(group_, std::make_shared<Agent>(group_->shared(), is_for_any_thread));
}

/// Operations that are under way cannot be ended; their peers may be about to complete them.
bool Transport::fail(std::exception_ptr cause) noexcept {
  if (!cause) return false;
  int exit_code = 1;
  try {
    std::rethrow_exception(cause);
  } catch (const InvalidArgument&) {
    exit_code = 2;
  } catch (const IoError&) {
    exit_code = 2;
  } catch (...) {
  }
  group_->shared()->end_job(message_of(cause), exit_code);
}

void Transport::carry_out(const Call& call) {
  const Watched watched(*agent_, group_->entry(), call);
  if (options_.checked && size_ > 1) check_agreement(call);
  if (!call.algorithm.empty() || !is_countable(call)) return Backend::carry_out(call);
  call_mpi(call);
}

}  // namespace adjoin::mpi
