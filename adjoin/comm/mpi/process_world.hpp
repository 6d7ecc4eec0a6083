#pragma once

#include <string>

#include "adjoin/base/cores.hpp"
#include "adjoin/comm/host/shared_world.hpp"

namespace adjoin {
struct MpiShared;
}

namespace adjoin::mpi {

/// The processes of a job on one host, which share memory. Where it ends, so does the job, unless they are guests: then their calls
/// end with the reason.
class ProcessWorld final : public host::SharedWorld {
 public:
  /// Called on all processes of `host`.
  ProcessWorld(const MpiShared& shared, SharedMemory& memory, host::Meeting& host);

  void end(const std::string& diagnosis) noexcept override;
  bool has_left(int rank) const override;
  void step_aside() { placement_.step_aside(place_); }

 private:
  std::string reason_of_end() const override;

  const MpiShared& shared_;
  const int place_;  // among the processes of the host
  ThreadCores placement_;
};

}  // namespace adjoin::mpi
