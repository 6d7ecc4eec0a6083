#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <utility>
#include <vector>

#include "adjoin/comm/launch.hpp"

namespace adjoin {
namespace {

/// Sets variables of the environment for its life; all that tell of an MPI job are unset otherwise.
class JobEnvironment {
 public:
  explicit JobEnvironment(const std::vector<std::pair<const char*, const char*>>& variables) {
    for (const char* name : kNames)
      if (const char* value = ::getenv(name)) saved_.emplace_back(name, value);
    clear();
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  }
  ~JobEnvironment() {
    clear();
    for (const auto& [name, value] : saved_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  JobEnvironment(const JobEnvironment&) = delete;
  JobEnvironment& operator=(const JobEnvironment&) = delete;

 private:
  static void clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_RANK",
                                           "OMPI_COMM_WORLD_LOCAL_SIZE",
                                           "MPI_LOCALNRANKS",
                                           "PMIX_RANK",
                                           "PMI_RANK",
                                           "PMI_SIZE",
                                           "SLURM_STEP_NUM_TASKS",
                                           "SLURM_NTASKS",
                                           "SLURM_STEP_TASKS_PER_NODE",
                                           "SLURM_NODEID"};
  std::vector<std::pair<std::string, std::string>> saved_;
};

struct Job {
  bool started;
  int size, rank, ranks_here;
  bool operator==(const Job&) const = default;
};

Job job_of(const std::vector<std::pair<const char*, const char*>>& variables) {
  const JobEnvironment environment(variables);
  return {started_by_mpi(), mpi_job_size(), mpi_job_rank(), mpi_job_ranks_here()};
}

// The variables are those that Open MPI 4.1 and Slurm 22.05 set.
TEST(Launch, reads_from_the_environment_what_started_it) {
  EXPECT_EQ(job_of({}), (Job{false, 1, 0, 1}));
  EXPECT_EQ(job_of({{"OMPI_COMM_WORLD_SIZE", "6"},
                    {"OMPI_COMM_WORLD_RANK", "4"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                    {"PMIX_RANK", "4"}}),
            (Job{true, 6, 4, 2}));
  EXPECT_EQ(job_of({{"PMIX_RANK", "6"},
                    {"SLURM_STEP_NUM_TASKS", "8"},
                    {"SLURM_NTASKS", "8"},
                    {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1(x2)"},
                    {"SLURM_NODEID", "3"}}),
            (Job{true, 8, 6, 1}));
  // an allocation, and srun without PMIx: not an MPI job
  EXPECT_EQ(job_of({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "8"}}), (Job{false, 1, 0, 1}));
  // mpirun in a job of Slurm's
  EXPECT_EQ(job_of({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"SLURM_NTASKS", "8"}}),
            (Job{true, 2, 1, 2}));
}

}  // namespace
}  // namespace adjoin
