#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "adjoin/base/mpi_job.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/host_memory.hpp"

namespace adjoin {

struct LaunchOptions {
  /// A call that waits longer ends the job with a report of who waits for whom. Deadlocks within one process are found
  /// regardless of it. Default: the environment's ADJOIN_DEADLINE, in seconds, or 5 minutes.
  std::chrono::milliseconds deadline = deadline_from_environment();
  /// MPI: collectives and types of messages that do not match are found, at the cost of one more small message before each.
  /// Threads always find them. Default: the environment's ADJOIN_CHECKED, 1 or true for yes, 0 or false for no.
  bool checked = checked_from_environment();
  /// MPI: whether the processes of a host reach each other's memory.
  HostMemory host_memory = host_memory_from_environment();
  /// MPI: called with the reason why the job ends, once per host, by the process that prints it; the returned text is printed
  /// on the next line.
  std::function<std::string(const std::string& failure)> at_failure = {};

  /// These throw InvalidArgument that names the variable where its value is invalid.
  static std::chrono::milliseconds deadline_from_environment();
  static bool checked_from_environment();
};

/// Runs `fn(world)` on `ranks` threads of this process and joins them all.
///
/// Throws: the first cause. When a worker throws, the others' blocked calls end at once; what the first one threw is thrown
///         here as the same class of Error (Error for other exceptions), its message preceded by "rank N: ". CommunicationError
///         with every rank's pending call where calls do not match or wait for each other. InvalidArgument if ranks < 1, or if
///         the machine cannot make that many threads; then `fn` has not been called.
void launch_threads(int ranks, const std::function<void(const Communicator& world)>& fn,
                    const LaunchOptions& options = {});

/// Runs `fn(world)` as this process's rank of the MPI job. Initialises MPI where it is not initialised, and then finalises it.
/// So a process that launches several times must initialise MPI itself, before the first launch.
///
/// A rank that throws ends the whole job and does not return from here: it prints the first cause on stderr, once for the job,
/// preceded by "adjoin: rank N: ", and exits by MPI_Abort, with 2 for InvalidArgument and IoError, else 1. So a `main` that
/// catches Error around launch and prints it prints nothing twice, and mpirun's exit code is that of the cause.
/// Throws: InvalidArgument where MPI was finalised before, or has another number of ranks than the environment says
void launch_mpi(const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options = {});

/// Runs `fn(world)` on MPI when started by mpirun or srun, else on `ranks` threads.
/// Throws: InvalidArgument when started by MPI with another number of ranks than `ranks`, on every rank alike.
void launch(int ranks, const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options = {});

}  // namespace adjoin
