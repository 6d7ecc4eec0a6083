#include "adjoin/comm/mpi/process_backend.hpp"

#include <atomic>
#include <chrono>
#include <exception>

#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/mpi/process_world.hpp"
#include "adjoin/comm/mpi/transport.hpp"

namespace adjoin::mpi {

std::shared_ptr<Backend> backend_on(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent) {
  if (group->in_memory()) return std::make_shared<ProcessBackend>(std::move(group), std::move(agent));
  return std::make_shared<Transport>(std::move(group), std::move(agent));
}

ProcessBackend::ProcessBackend(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent)
    : InJob(group, std::move(agent), group->in_memory(), group->rank()) {}

void ProcessBackend::AgentWaiter::step_aside() {
  if (backend.agent_->is_ranks_own()) backend.group_->shared()->host_world->step_aside();
}

/// MPI moves what this rank sends to other hosts only while the rank is in a call of MPI. A peer that this rank's peers on this
/// host wait for may be waiting for that data.
void ProcessBackend::AgentWaiter::sleep(host::Parking& parking, const host::Waiting& waiting) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPause = std::chrono::microseconds(500);
  const std::atomic<int>& sends = backend.group_->shared()->sends;
  while (!parking.sleep(waiting.is_over, sends.load() > 0 ? Clock::now() + kPause : Clock::time_point::max())) {
    int has_come = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &has_come, MPI_STATUS_IGNORE);
  }
}

void ProcessBackend::exchange(std::span<const Message> messages, const Call& call) {
  if (call.collective) return HostBackend::exchange(messages, call);  // which is watched itself
  const Watched watched(*agent_, group_->entry(), call);
  HostBackend::exchange(messages, call);
}

void ProcessBackend::run_collective(const Call& call) {
  const Watched watched(*agent_, group_->entry(), call);
  HostBackend::run_collective(call);
}

/// The wait for the end of the send is watched.
class ProcessBackend::WatchedSend final : public OwnSend {
 public:
  WatchedSend(std::shared_ptr<ProcessBackend> backend, const Message& message, const Call& call)
      : OwnSend(message, call), backend_(std::move(backend)) {
    const Watched watched(*backend_->agent_, backend_->group_->entry(), call_);
    sending_ = backend_->HostBackend::begin_send(message_, call_);
  }
  ~WatchedSend() override {
    if (process_.is_here() && !done() && std::uncaught_exceptions() == 0) wait();
  }
  void wait() override {
    const Watched watched(*backend_->agent_, backend_->group_->entry(), call_, Watched::Part::end);
    sending_->wait();
  }
  bool done() override { return sending_->done(); }

 private:
  const std::shared_ptr<ProcessBackend> backend_;
  std::unique_ptr<PendingSend> sending_;
};

std::unique_ptr<PendingSend> ProcessBackend::begin_send(const Message& message, const Call& call) {
  return std::make_unique<WatchedSend>(std::static_pointer_cast<ProcessBackend>(shared_from_this()), message, call);
}

}  // namespace adjoin::mpi
