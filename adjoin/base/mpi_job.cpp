#include "adjoin/base/mpi_job.hpp"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <sstream>
#include <string>

namespace adjoin {

namespace {

/// The first of the variables that is set to a number; `otherwise` where none is.
int job_number(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* variable : variables)
    if (const char* value = std::getenv(variable); value && *value) return std::atoi(value);
  return otherwise;
}

/// Slurm's list of the tasks on each node, such as "2(x3),1" for 2, 2, 2, 1: the number at `node`; 0 where there is
/// none.
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

// OpenMPI's mpirun sets OMPI_*, MPICH's PMI_*, and `srun --mpi=pmix` PMIX_RANK as well as Slurm's own variables. Those
// alone mean nothing: they are also set for programs that are not MPI jobs.
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

int mpi_job_place_here() {
  if (!started_by_mpi()) return 0;
  return job_number({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, mpi_job_rank());
}

}  // namespace adjoin
