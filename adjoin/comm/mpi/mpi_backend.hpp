#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "adjoin/comm/backend.hpp"
#include "adjoin/comm/host_memory.hpp"

namespace adjoin {

/// What all groups of one process share of MPI; its members know mpi.h.
struct MpiShared;

struct MpiOptions {
  /// No MPI call counts more elements, as MPI 3 counts in int: longer collectives are cut, messages are derived types.
  int64_t largest_piece = int64_t{1} << 30;
  /// As in LaunchOptions.
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
  bool checked = false;
  HostMemory host_memory = host_memory_from_environment();
  std::function<std::string(const std::string& failure)> at_failure = {};
  /// As if each host had no more ranks than these; 0: as it is.
  int ranks_of_a_host = 0;
};

/// MPI for as long as it lives: initialised where nobody has (and then finalised), at thread level multiple where the
/// library offers it. Called on all ranks of the job together.
class MpiSession {
 public:
  explicit MpiSession(const MpiOptions& options = {});
  /// Waits for all ranks to come here.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// All ranks of the job. Groups within a host work in memory that its processes share, where they do; else collectives are MPI's
  /// own. A send is synchronous. One process of each host
  /// watches the pending calls of all: a deadlock within the host is told after a second, a call that takes longer than
  /// the deadline when it does, with every rank's call, and ends the job.
  ///
  /// abort() and fail() end all processes of the job by MPI_Abort, with exit code 2 for InvalidArgument and IoError, else
  /// 1. The first that does so on each host prints "adjoin: rank N: message" on stderr; what follows from it is not
  /// printed.
  std::shared_ptr<Backend> world() const;

 private:
  bool finalizes_ = false;
  std::shared_ptr<MpiShared> shared_;
};

}  // namespace adjoin
