#pragma once

#include <memory>
#include <span>

#include "adjoin/comm/host/host_backend.hpp"
#include "adjoin/comm/mpi/in_job.hpp"

namespace adjoin::mpi {

/// A group of processes that share memory, for one thread of this process. The table of pending calls shows its calls too, so
/// that deadlocks are found as over MPI.
class ProcessBackend final : public InJob<HostBackend> {
 public:
  ProcessBackend(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent);

  void exchange(std::span<const Message> messages, const Call& call) override;
  std::unique_ptr<Pending> begin(const Call& call) override;
  void run_collective(const Call& call) override;

 private:
  class WatchedSends;
  struct AgentWaiter final : host::Waiter {
    explicit AgentWaiter(ProcessBackend& of) : backend(of) {}
    void step_aside() override;
    void sleep(host::Parking& parking, const host::Waiting& waiting) override;
    ProcessBackend& backend;
  };

  host::Waiter& waiter() override { return waiter_; }

  AgentWaiter waiter_{*this};
};

}  // namespace adjoin::mpi
