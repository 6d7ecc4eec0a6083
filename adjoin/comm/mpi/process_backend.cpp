#include "adjoin/comm/mpi/process_backend.hpp"

#include <chrono>

#include "adjoin/comm/mpi/process_world.hpp"
#include "adjoin/comm/mpi/progress.hpp"
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

/// Without a thread that looks, what this rank has begun between hosts, and what a guest's program has begun itself, goes on
/// only while the rank looks. A peer that this rank's peers on this host wait for may be waiting for it.
void ProcessBackend::AgentWaiter::sleep(host::Parking& parking, const host::Waiting& waiting) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPause = std::chrono::microseconds(500);
  const MpiShared& shared = *backend.group_->shared();
  Progress& progress = *shared.progress;
  const host::World& world = backend.group_->in_memory()->world();
  const bool is_guest = shared.is_guest() && mpi_is_alive();
  const auto is_over = [&] { return waiting.is_over() || (is_guest && world.aborted()); };
  while (
      !parking.sleep(is_over, is_guest || progress.wants_looks() ? Clock::now() + kPause : Clock::time_point::max())) {
    progress.look();
    int has_come = 0;  // what the program has begun itself goes on only while MPI is called
    if (is_guest) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &has_come, MPI_STATUS_IGNORE);
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

/// The wait for the end of the sends is watched.
class ProcessBackend::WatchedSends final : public Pending {
 public:
  WatchedSends(std::shared_ptr<ProcessBackend> backend, const Call& call) : backend_(std::move(backend)), call_(call) {
    const Watched watched(*backend_->agent_, backend_->group_->entry(), call_);
    sending_ = backend_->HostBackend::begin(call_);
  }
  void wait() override {
    const Watched watched(*backend_->agent_, backend_->group_->entry(), call_, Watched::Part::end);
    sending_->wait();
  }
  bool done() override { return sending_->done(); }

 private:
  const std::shared_ptr<ProcessBackend> backend_;
  const Call& call_;
  std::unique_ptr<Pending> sending_;
};

std::unique_ptr<Pending> ProcessBackend::begin(const Call& call) {
  if (!call.only_sends()) return nullptr;
  return std::make_unique<WatchedSends>(std::static_pointer_cast<ProcessBackend>(shared_from_this()), call);
}

}  // namespace adjoin::mpi
