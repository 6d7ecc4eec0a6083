#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/failures.hpp"

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

/// A variable of the environment for its life.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Launch, reads_whole_values_of_the_environment_and_refuses_others_by_name) {
  const auto deadline_of = [](const char* value) {
    const Variable variable("ADJOIN_DEADLINE", value);
    return LaunchOptions::deadline_from_environment();
  };
  const auto checked_of = [](const char* value) {
    const Variable variable("ADJOIN_CHECKED", value);
    return LaunchOptions::checked_from_environment();
  };
  EXPECT_EQ(deadline_of("2.5"), std::chrono::milliseconds(2500));
  EXPECT_EQ(deadline_of(""), std::chrono::minutes(5));
  for (const char* wrong : {"abc", "0", "5m", "-1", "nan", " 5"})
    EXPECT_NE(testing::thrown_by<InvalidArgument>([&] { deadline_of(wrong); }).find("ADJOIN_DEADLINE"),
              std::string::npos)
        << wrong;
  EXPECT_TRUE(checked_of("1") && checked_of("true"));
  EXPECT_FALSE(checked_of("0") || checked_of("false") || checked_of(""));
  for (const char* wrong : {"yes", "2", "10"})
    EXPECT_NE(testing::thrown_by<InvalidArgument>([&] { checked_of(wrong); }).find("ADJOIN_CHECKED"), std::string::npos)
        << wrong;
}

}  // namespace
}  // namespace adjoin
