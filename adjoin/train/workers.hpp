#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::train {

/// The most thread workers that the program starts; with more, only stacks and scheduling would keep the machine busy.
inline constexpr int kMostThreads = 1024;

/// Where workers run and with how many threads each.
struct WorkerOptions {
  GridSizes grid;
  std::string backend = "auto";      ///< auto, threads or mpi
  int64_t threads_per_rank = 0;      ///< 0: this machine's cores divided by the ranks on it
  bool deterministic = false;        ///< Communicator::deterministic
  bool checked = false;              ///< as in LaunchOptions; also if the environment says so
  double deadline = 0;               ///< seconds, as in LaunchOptions; 0: its default
  std::string host_memory = "auto";  ///< auto (as ADJOIN_HOST_MEMORY says), on or off
  /// As in LaunchOptions.
  std::function<std::string(const std::string& failure)> at_failure = {};
};

/// The options of every use of a trained model, such as an evaluation.
struct ModelUse {
  std::string model;  // the output folder of a training run
  int64_t step = 0;   // a checkpoint of the run; 0: the finished model, or the newest checkpoint
  GridSizes grid;
  int64_t zero = 1;  // as in a configuration
  std::string backend = "auto";
  std::string host_memory = "auto";
  int64_t threads_per_rank = 0;
};

/// The number of threads of each of `ranks_here` ranks on this machine: as given, or its share of the cores.
int threads_of_a_rank(int64_t threads_per_rank, int64_t ranks_here);

/// The worker options of a configuration.
WorkerOptions worker_options(const Configuration& configuration);

/// Runs `work(world)` on the workers of a grid: on threads of this process, or in this process as a rank of an MPI job.
/// Throws: InvalidArgument where the MPI job has another number of ranks, where the backend is not the one that started the
///         program, or where there are more threads than kMostThreads or than the machine has; else as launch does.
void run_workers(const WorkerOptions& options, const std::function<void(const Communicator& world)>& work);

/// Throws what run_workers would throw for these options, before long work begins.
void check_workers(const WorkerOptions& options);

/// Whether this worker prints for its process: rank 0 of threads, every rank under MPI.
bool is_first_of_process(const Communicator& world);

}  // namespace adjoin::train
