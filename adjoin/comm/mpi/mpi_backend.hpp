#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/backend.hpp"
#include "adjoin/comm/contract/host_memory.hpp"

namespace adjoin {

/// What all groups of one process share of MPI; defined where mpi.h is known.
struct MpiShared;

struct MpiOptions {
  /// No MPI call counts more elements than this, at least 2, as MPI 3 counts in int: longer collectives are cut, and messages
  /// use derived types.
  int64_t largest_piece = int64_t{1} << 30;
  /// As in LaunchOptions.
  std::chrono::milliseconds deadline = std::chrono::minutes(5);
  bool checked = false;
  HostMemory host_memory = host_memory_from_environment();
  std::function<std::string(const std::string& failure)> at_failure = {};
  /// Behaves as if each host had at most this many ranks; 0: as it is.
  int ranks_of_a_host = 0;
  /// The world's ranks, as the processes of a communicator of another program (MPI_Comm_c2f of it), whose guest this library then
  /// is: MPI must be initialised, at any thread level, and the program may finalise it at any time. What ends a job ends the world
  /// instead: on one host that shares memory all its blocked and later calls throw CommunicationError with the report. On several
  /// hosts MPI gives back no blocked call: there the report goes to `tell`, and the job ends only where `ends_job` says so. While a
  /// rank waits, MPI carries on what the program itself has begun. None: all processes of the job.
  std::optional<int> communicator = {};
  bool ends_job = false;
  /// Why this rank cannot take part, for a guest: then all throw InvalidArgument, "rank 1: …".
  std::string refusal = {};
  /// Takes what would be printed on stderr; may be called by another thread.
  std::function<void(const std::string& message)> tell = {};
};

/// Thrown by the function of a rank: launch_mpi throws it on all ranks, with the largest code, when all have left the function.
struct RankExit {
  int code = 0;
};

/// Whether the job ends because another process of this host has failed, on rank 0 also of another host: mpirun then sends this one
/// SIGTERM, as it does where the user presses Ctrl-C. May be called by a signal's handler.
bool mpi_job_fails() noexcept;

/// Keeps MPI running for as long as it lives: initialises it where it is not initialised (and then finalises it), at thread
/// level multiple where the library offers that. Called on all ranks of the job together.
class MpiSession : NotCopied {
 public:
  explicit MpiSession(const MpiOptions& options = {});
  /// leave(), where that was not called.
  ~MpiSession();

  /// All ranks of the job. Groups within a host work in memory that its processes share, where they do; otherwise collectives
  /// are MPI's own. A send is synchronous. One process of each host watches the pending calls of all its processes. It reports
  /// a deadlock within the host after a second, and a call that takes longer than the deadline when it does; the report has
  /// every rank's call, and the job ends.
  ///
  /// abort(), fail() and an error while this object or a world is made end all processes of the job by MPI_Abort, with exit code 2
  /// for InvalidArgument and IoError, else 1.
  /// The first process of each host that does so prints "adjoin: rank N: message" on stderr; failures that follow from it are
  /// not printed.
  std::shared_ptr<Backend> world() const;

  /// Waits until all ranks have come here. Returns the largest exit code that any of them gives. Where a rank gives another than
  /// 0 and the others have not come within a second, the job ends with this code.
  std::optional<int> leave(std::optional<int> exit_code);

 private:
  bool finalizes_ = false, is_open_ = true;
  std::shared_ptr<MpiShared> shared_;
};

}  // namespace adjoin
