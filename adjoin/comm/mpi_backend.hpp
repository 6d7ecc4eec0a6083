#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "adjoin/comm/backend.hpp"

namespace adjoin {

/// What all groups of one process share of MPI; its members know mpi.h.
struct MpiShared;

/// MPI for as long as it lives: initialised where nobody has (and then finalised), at thread level multiple where the
/// library offers it. Called on all ranks of the job together.
class MpiSession {
 public:
  /// No MPI call moves more than `largest_piece` elements; longer messages are cut, as MPI 3 counts in int.
  explicit MpiSession(int64_t largest_piece = int64_t{1} << 30);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// All ranks of the job. Collectives are MPI's own; a send is synchronous (MPI_Issend).
  std::shared_ptr<Backend> world() const;

  /// Ends all processes of the job by MPI_Abort with `exit_code`. The first that comes here on each host prints
  /// "adjoin: rank N: message" on stderr; what follows from it is not printed.
  [[noreturn]] void end_job(const std::string& message, int exit_code) const noexcept;

 private:
  bool finalizes_ = false;
  std::shared_ptr<MpiShared> shared_;
};

}  // namespace adjoin
