#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/task/grid_sizes.hpp"

namespace adjoin::train {

/// The most thread workers that the program starts; with more, only stacks and scheduling would keep the machine busy.
inline constexpr int kMostThreads = 1024;

/// The options of every use of a trained model, such as an evaluation.
struct ModelUse {
  std::string model;  // the output folder of a training run
  int64_t step = 0;   // a checkpoint of the run; 0: the finished model, or the newest checkpoint
  RankOptions ranks{};
};

/// The number of threads of each of `ranks_here` ranks on this machine: as given, or its share of the cores.
int threads_of_a_rank(int64_t threads_per_rank, int64_t ranks_here);

/// Runs `work(world)` on the workers of a grid: on threads of this process, or in this process as a rank of an MPI job.
/// `at_failure`: as in LaunchOptions.
/// Throws: InvalidArgument where the MPI job has another number of ranks, where the backend is not the one that started the
///         program, or where there are more threads than kMostThreads or than the machine has; else as launch does.
void run_workers(const WorkerOptions& options, const std::function<void(const Communicator& world)>& work,
                 const std::function<std::string(const std::string& failure)>& at_failure = {});

/// The same for a configuration, whose sums may have to be in one order.
void run_workers(const Configuration& configuration, const std::function<void(const Communicator& world)>& work,
                 const std::function<std::string(const std::string& failure)>& at_failure = {});

/// Throws what run_workers would throw for these options, before long work begins.
void check_workers(const WorkerOptions& options);

/// What `next` returns on rank 0, on all ranks, including bytes that are not UTF-8. It may wait long, as for a person who types.
/// Throws: what `next` throws, on rank 0
std::vector<std::string> texts_of_root(const Communicator& world,
                                       const std::function<std::vector<std::string>()>& next);

/// Whether this worker prints for its process: rank 0 of threads, every rank under MPI.
bool is_first_of_process(const Communicator& world);

}  // namespace adjoin::train
