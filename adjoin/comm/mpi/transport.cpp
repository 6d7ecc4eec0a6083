#include "adjoin/comm/mpi/transport.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/comm/mpi/agreement.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

namespace {

/// Shows the watchdog what this thread is in, for as long as it lives.
class Watched {
 public:
  Watched(const Agent& agent, const Group& group, const Call& call) : agent_(agent.entry()), group_(group.entry()) {
    if (agent_) write_call(*agent_, group.id(), call);
  }
  ~Watched() {
    if (agent_) write_end(*agent_);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  AgentEntry* agent() const { return agent_; }
  /// Calls `write(agent, group)` where the table has room for both.
  template <class Write>
  void tell(Write write) const {
    if (agent_ && group_) write(*agent_, *group_);
  }

 private:
  AgentEntry* const agent_;
  GroupEntry* const group_;
};

}  // namespace

Transport::Transport(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent)
    : group_(std::move(group)),
      agent_(std::move(agent)),
      comm_(group_->comm()),
      options_(group_->shared()->options),
      messages_(comm_, options_) {
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

void Transport::exchange(std::span<const Message> messages, const Call& call) {
  if (call.collective) return messages_.exchange(messages, call, nullptr);
  const Watched watched(*agent_, *group_, call);
  watched.tell([&](AgentEntry& agent, GroupEntry& group) { write_messages(agent, group, rank_, messages); });
  messages_.exchange(messages, call, watched.agent());
}

std::shared_ptr<Backend> Transport::subset(std::span<const int> ranks, const Call& call) {
  const Watched watched(*agent_, *group_, call);
  watched.tell([&](AgentEntry& agent, GroupEntry& group) { write_subset(agent, group, ranks); });
  return std::make_shared<Transport>(group_->subset(ranks), agent_);
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
  const Watched watched(*agent_, *group_, call);
  watched.tell(write_collective);
  if (options_.checked && size_ > 1) check_agreement(*group_, call);
  if (!call.algorithm.empty()) return Backend::carry_out(call);
  switch (*call.collective) {
    case Collective::barrier:
      return check_mpi(MPI_Barrier(comm_), "barrier");
    case Collective::broadcast:
      return broadcast(call);
    case Collective::reduce:
      return reduce(call);
    case Collective::all_reduce:
      return all_reduce(call);
    case Collective::all_to_all:
      return all_to_all(call);
    default:
      break;
  }
  if (!is_countable(call)) return Backend::carry_out(call);
  switch (*call.collective) {
    case Collective::gather:
      return gather(call);
    case Collective::scatter:
      return scatter(call);
    case Collective::all_gather:
      return all_gather(call);
    default:
      return reduce_scatter(call);
  }
}

}  // namespace adjoin::mpi
