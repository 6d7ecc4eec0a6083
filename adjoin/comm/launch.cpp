#include "adjoin/comm/launch.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/threads/thread_backend.hpp"

namespace adjoin {

namespace {

/// The first of the variables that is set to a number, else `otherwise`.
int job_number(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* variable : variables)
    if (const char* value = std::getenv(variable); value && *value) return std::atoi(value);
  return otherwise;
}

/// Slurm's list of the tasks on each node, "2(x3),1" for 2, 2, 2, 1: the number at `node`; 0 where there is none.
int tasks_on_node(const std::string& list, int node) {
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) {
    int tasks = 0, nodes = 1;
    if (std::sscanf(item.c_str(), "%d(x%d)", &tasks, &nodes) < 1) return 0;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return 0;
}

bool is_set(const char* variable) {
  return std::getenv(variable) != nullptr;
}

}  // namespace

std::chrono::milliseconds LaunchOptions::deadline_from_environment() {
  const char* value = std::getenv("ADJOIN_DEADLINE");
  if (!value || !*value) return std::chrono::minutes(5);
  double seconds = 0;
  const char* end = value + std::strlen(value);
  const auto [rest, error] = std::from_chars(value, end, seconds);
  const std::string expected = "the environment's ADJOIN_DEADLINE: expected seconds, a number of at least 0.001, got '";
  require(error == std::errc() && rest == end && seconds >= 0.001, expected + value + "'");
  const std::chrono::duration<double> wanted(std::min(seconds, 1e9));  // which is longer than anybody waits
  return std::chrono::duration_cast<std::chrono::milliseconds>(wanted);
}

bool LaunchOptions::checked_from_environment() {
  const char* value = std::getenv("ADJOIN_CHECKED");
  const std::string_view text = value ? value : "";
  if (text.empty() || text == "0" || text == "false") return false;
  require(text == "1" || text == "true",
          "the environment's ADJOIN_CHECKED: expected 0, 1, true or false, got '" + std::string(text) + "'");
  return true;
}

void launch_threads(int ranks, const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options) {
  require(ranks >= 1, "launch: expected at least 1 rank, got " + std::to_string(ranks));
  ThreadWorld world(ranks, options.deadline, options.checked);
  std::promise<bool> all_exist;  // nobody begins before: where the machine refuses a thread, nothing has been done
  const std::shared_future<bool> may_begin = all_exist.get_future().share();
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<size_t>(ranks));
  const auto work = [&](int rank) {
    if (!may_begin.get()) return;
    const auto backend = world.backend(rank);  // it lives until the cause is told, or the rank would look returned
    try {
      fn(Communicator(backend));
    } catch (...) {
      world.world->leave_by(rank, std::current_exception());
    }
    world.depart(rank);
  };
  try {
    for (int rank = 0; rank < ranks; ++rank) workers.emplace_back(work, rank);
  } catch (const std::exception&) {  // std::system_error, or std::bad_alloc
    all_exist.set_value(false);
    throw InvalidArgument("launch: " + std::to_string(ranks) + " ranks are too many for this machine, which made " +
                          std::to_string(workers.size()) + " threads");
  }
  all_exist.set_value(true);
  workers.clear();  // joined
  world.world->throw_cause();
}

// OpenMPI's mpirun sets OMPI_*, MPICH's PMI_*, and `srun --mpi=pmix` PMIX_RANK beside Slurm's own variables, which
// alone mean nothing: they are also set for programs that are no MPI job.
bool started_by_mpi() {
  return is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK") || is_set("PMI_RANK");
}

int mpi_job_size() {
  if (!started_by_mpi()) return 1;
  return job_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1);
}

int mpi_job_rank() {
  if (!started_by_mpi()) return 0;
  return job_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, 0);
}

int mpi_job_ranks_here() {
  if (!started_by_mpi()) return 1;
  int ranks = job_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 0);
  if (const char* list = std::getenv("SLURM_STEP_TASKS_PER_NODE"); list != nullptr && ranks < 1)
    ranks = tasks_on_node(list, job_number({"SLURM_NODEID"}, 0));
  return ranks >= 1 ? ranks : mpi_job_size();
}

void launch_mpi(const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options) {
  const MpiSession session({.deadline = options.deadline, .checked = options.checked});
  const auto backend = session.world();  // until the cause is told the rank must not look like one that has returned
  // PMI_RANK and its like may be left over from another launcher, or be of another MPI.
  require(backend->size() == mpi_job_size(),
          "launch: the environment tells of a job of " + std::to_string(mpi_job_size()) + " ranks, but MPI of " +
              std::to_string(backend->size()) +
              "; start it by the mpirun of this program's MPI, or unset PMI_RANK and PMI_SIZE");
  try {
    fn(Communicator(backend));
  } catch (...) {
    backend->fail(std::current_exception());
  }
}

void launch(int ranks, const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options) {
  if (!started_by_mpi()) return launch_threads(ranks, fn, options);
  require(ranks == mpi_job_size(), "launch: expected a job of " + std::to_string(ranks) + " ranks, got one of " +
                                       std::to_string(mpi_job_size()) + " from mpirun");
  launch_mpi(fn, options);
}

}  // namespace adjoin
