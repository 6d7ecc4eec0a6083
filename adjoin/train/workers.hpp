#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/train/configuration.hpp"
#include "adjoin/train/grid_sizes.hpp"

namespace adjoin::train {

/// As many thread workers as the program starts: beyond it, their stacks and schedules are all they would work on.
inline constexpr int kMostThreads = 1024;

/// Where workers run and with how many threads each.
struct WorkerOptions {
  GridSizes grid;
  std::string backend = "auto";      ///< auto, threads or mpi
  int64_t threads_per_rank = 0;      ///< 0: this machine's cores divided by the ranks on it
  bool deterministic = false;        ///< Communicator::deterministic
  bool checked = false;              ///< as in LaunchOptions, or where the environment says so
  double deadline = 0;               ///< seconds, as in LaunchOptions; 0: its default
  std::string host_memory = "auto";  ///< auto (as ADJOIN_HOST_MEMORY says), on or off
  /// As in LaunchOptions.
  std::function<std::string(const std::string& failure)> at_failure = {};
};

/// What use of a trained model, such as an evaluation, is asked.
struct ModelUse {
  std::string model;  // the output folder of a training run
  int64_t step = 0;   // of its checkpoint; 0: the finished model, or the newest checkpoint
  GridSizes grid;
  int64_t zero = 1;  // as in a configuration
  std::string backend = "auto";
  std::string host_memory = "auto";
  int64_t threads_per_rank = 0;
};

/// With how many threads each of so many ranks on this machine computes: as asked, or its share of the cores.
int threads_of_a_rank(int64_t threads_per_rank, int64_t ranks_here);

/// Those of a configuration.
WorkerOptions worker_options(const Configuration& configuration);

/// Runs `work(world)` on the workers of a grid: threads of this process, or this process as one of an MPI job's.
/// Throws: InvalidArgument where the MPI job has another number of ranks, the backend is not what started the program,
///         or the threads are more than kMostThreads or than the machine has;
///         else as launch does.
void run_workers(const WorkerOptions& options, const std::function<void(const Communicator& world)>& work);

/// Checks what run_workers would refuse, before long work begins.
void check_workers(const WorkerOptions& options);

/// Whether this worker speaks for its process: rank 0 of threads, every rank under MPI.
bool speaks_for_process(const Communicator& world);

}  // namespace adjoin::train
