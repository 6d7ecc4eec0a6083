#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <string>

#include "adjoin/base/element_type.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"
#include "adjoin/comm/mpi/watchdog.hpp"
#include "adjoin/comm/reduction.hpp"

namespace adjoin {

/// Throws CommunicationError with MPI's own words unless `code` is success.
void check_mpi(int code, const char* call);

bool mpi_is_alive();

MPI_Datatype mpi_type(ElementType type);

/// What all groups of one process share of MPI: reductions that MPI lacks, the table of pending calls of this host with
/// the watchdog that reads it, and who speaks first when the job fails.
struct MpiShared {
  explicit MpiShared(const MpiOptions& options);
  ~MpiShared();
  MpiShared(const MpiShared&) = delete;
  MpiShared& operator=(const MpiShared&) = delete;

  /// What MPI applies to two operands; finish_reduction makes the rest.
  MPI_Op operation(ElementType type, Reduction reduction) const;
  [[noreturn]] void end_job(const std::string& message, int exit_code) const noexcept;
  /// Frees what needs MPI, before it is finalised.
  void release() noexcept;

  /// Waits for all ranks to come here, watched, so that one that left early is told of where others wait for it.
  void leave() noexcept;

  const MpiOptions options;
  int world_rank = 0, world_size = 1;
  mpi::PendingTable table;           // empty where the processes of this host share no memory
  mpi::ProcessEntry* own = nullptr;  // in memory that the processes of a host share; nullptr once that is gone

 private:
  void share_memory();
  bool is_first_to_fail() const noexcept;
  void say(const std::string& message) const noexcept;

  std::array<std::array<MPI_Op, kReductions>, kElementTypes> operations_;
  MPI_Win window_ = MPI_WIN_NULL;
  bool is_released_ = false;
  std::unique_ptr<mpi::Watchdog> watchdog_;  // in one process of each host
};

}  // namespace adjoin
