#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <string>

#include "adjoin/base/element_type.hpp"
#include "adjoin/comm/reduction.hpp"

namespace adjoin {

/// Throws CommunicationError with MPI's own words unless `code` is success.
void check_mpi(int code, const char* call);

bool mpi_is_alive();

MPI_Datatype mpi_type(ElementType type);

/// What all groups of one process share of MPI: reductions that MPI lacks, and who speaks first when the job fails.
struct MpiShared {
  explicit MpiShared(int64_t piece);
  ~MpiShared();
  MpiShared(const MpiShared&) = delete;
  MpiShared& operator=(const MpiShared&) = delete;

  /// What MPI applies to two operands; finish_reduction makes the rest.
  MPI_Op operation(ElementType type, Reduction reduction) const;
  [[noreturn]] void end_job(const std::string& message, int exit_code) const noexcept;
  /// Frees what needs MPI, before it is finalised.
  void release() noexcept;

  int64_t largest_piece;
  int world_rank = 0;

 private:
  bool is_first_to_fail() const noexcept;

  std::array<std::array<MPI_Op, kReductions>, kElementTypes> operations_;
  MPI_Win window_ = MPI_WIN_NULL;
  int* somebody_failed_ = nullptr;  // in memory that the processes of one host share
};

}  // namespace adjoin
