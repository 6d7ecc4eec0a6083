#include "adjoin/train/workers.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "adjoin/base/cores.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/common_cause.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/libtorch.hpp"
#include "adjoin/nn/sequence/kept_promises.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/train/failures.hpp"

namespace adjoin::train {
int threads_of_a_rank(int64_t threads_per_rank, int64_t ranks_here) {
  if (threads_per_rank > 0) return static_cast<int>(threads_per_rank);
  return static_cast<int>(std::max<int64_t>(1, usable_cores() / ranks_here));
}

void check_workers(const WorkerOptions& options) {
  validate(options);
  check_device(options.device);
  const int64_t ranks = options.ranks();
  require(options.backend != Workers::mpi || started_by_mpi(),
          [&] { return "--backend mpi: start the program with mpirun -n " + std::to_string(ranks) + " or srun"; });
  require(options.backend != Workers::threads || !started_by_mpi(),
          "--backend threads: the program was started by mpirun or srun, where each process is one rank");
  const auto needs = [&] { return options.needs() + ", "; };
  require(started_by_mpi() || ranks <= kMostThreads,
          [&] { return needs() + "expected at most " + std::to_string(kMostThreads) + " threads of one process"; });
  require(!started_by_mpi() || mpi_job_size() == ranks,
          [&] { return needs() + "the MPI job has " + std::to_string(mpi_job_size()); });
}

void run_workers(const WorkerOptions& options, const std::function<void(const Communicator& world)>& work,
                 const std::function<std::string(const std::string& failure)>& at_failure) {
  check_workers(options);
  const int threads =
      threads_of_a_rank(options.threads_per_rank, started_by_mpi() ? mpi_job_ranks_here() : options.ranks());
  const auto run = [&](const Communicator& world) {
    at::set_num_threads(threads);
    try {
      with_adjoin_errors([&] { work(options.deterministic ? world.deterministic() : world); });
    } catch (const InvalidArgument& error) {  // all ranks have the same configuration, data and folders
      throw Common<InvalidArgument>(error.what());
    }
  };
  LaunchOptions launched{.host_memory = host_memory_or_environment(options.host_memory), .at_failure = at_failure};
  launched.checked |= options.checked;
  if (options.deadline > 0) launched.deadline = std::chrono::milliseconds(std::llround(1000 * options.deadline));
  launch(static_cast<int>(options.ranks()), run, launched);
}

void run_workers(const Configuration& c, const std::function<void(const Communicator& world)>& work,
                 const std::function<std::string(const std::string& failure)>& at_failure) {
  if (c.same_bits != "off") nn::fixed::ask_for_one_order();
  run_workers(static_cast<const WorkerOptions&>(c), work, at_failure);
}

std::vector<std::string> texts_of_root(const Communicator& world,
                                       const std::function<std::vector<std::string>()>& next) {
  if (world.size() == 1) return next();
  constexpr auto kNever = std::chrono::hours(24 * 365);
  std::string packed;
  on_root(
      world, "reading texts", [&] { nlohmann::json::to_msgpack(next(), packed); }, kNever);
  return nlohmann::json::from_msgpack(text_from_rank(0, std::move(packed), world)).get<std::vector<std::string>>();
}

bool is_first_of_process(const Communicator& world) {
  return world.rank() == 0 || started_by_mpi();
}

}  // namespace adjoin::train
