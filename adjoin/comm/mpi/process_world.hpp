#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/cores.hpp"
#include "adjoin/base/shared_memory.hpp"
#include "adjoin/comm/host/group.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"

namespace adjoin {
struct MpiShared;
}

namespace adjoin::mpi {

/// Gives the processes of `host` memory that they share, all of them or none. Returns why there is none, the same text on all.
/// Called on all.
std::string share_host_memory(MPI_Comm host);

/// The processes of a job on one host, which share memory.
class ProcessWorld final : public host::World {
 public:
  /// Called on all processes of `host`.
  ProcessWorld(const MpiShared& shared, SharedMemory& memory, MPI_Comm host);

  /// The group of these processes, in memory that its first rank allocates; nullptr where there is no room for it. Called on
  /// all of `group`.
  static std::shared_ptr<host::Group> make_group(const std::shared_ptr<ProcessWorld>& world, MPI_Comm group,
                                                 std::vector<int> world_ranks);

  void end(const std::string& diagnosis) noexcept override;
  bool has_left(int rank) const override;
  std::pmr::memory_resource& memory() override { return memory_.resource(); }
  bool is_of_processes() const override { return true; }
  bool reaches(const void* memory) const override { return memory_.holds(memory); }
  void step_aside() { placement_.step_aside(place_); }

 private:
  std::string reason_of_end() const override { return ""; }  // no process lives to read it

  const MpiShared& shared_;
  SharedMemory& memory_;
  const int place_;  // among the processes of the host
  ThreadCores placement_;
};

}  // namespace adjoin::mpi
