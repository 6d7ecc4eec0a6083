#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "adjoin/cli/doctor_report.hpp"
#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Doctor, finds_every_operation_right_on_threads_and_under_mpirun) {
  for (const int ranks : {0, 3}) {
    SCOPED_TRACE(ranks > 0 ? "under mpirun" : "on threads");
    const Outcome outcome = run("doctor", {.ranks = ranks});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("usable of"), HasSubstr("LibTorch"), HasSubstr("  all_reduce      ok\n"),
                                   HasSubstr("15 of 15 operations ok"), Not(HasSubstr("FAILED"))));
    EXPECT_THAT(outcome.out,
                HasSubstr(ranks > 0 ? "3 over MPI on 1 host, thread level multiple\n" : "4 threads of this process\n"));
    if (ranks > 0) {
      EXPECT_THAT(outcome.out, HasSubstr("host memory 3 ranks share their memory\n"));
    }
  }
}

TEST(Doctor, tells_the_same_as_one_json_object) {
  const Outcome threads = run("doctor --ranks 2 --json"), mpi = run("doctor --json", {.ranks = 2});
  ASSERT_EQ(threads.code, 0) << threads.err;
  ASSERT_EQ(mpi.code, 0) << mpi.err;
  for (const std::string& text : {threads.out, mpi.out}) {
    const json report = json::parse(text);
    EXPECT_EQ(report.at("ranks"), 2);
    EXPECT_EQ(report.at("ok"), true);
    EXPECT_EQ(report.at("operations").size(), 15u);
    EXPECT_GE(report.at("cores"), report.at("usable_cores"));
    EXPECT_EQ(report.at("hosts").size(), 1u);
    EXPECT_EQ(report.at("hosts")[0].at("ranks"), (std::vector<int>{0, 1}));
    EXPECT_EQ(report.at("hosts")[0].at("host"), report.at("host"));
  }
  EXPECT_EQ(json::parse(threads.out).at("backend"), "threads");
  EXPECT_TRUE(json::parse(threads.out).at("mpi").at("started_by").is_null());
  EXPECT_EQ(json::parse(mpi.out).at("backend"), "mpi");
  EXPECT_EQ(json::parse(mpi.out).at("mpi").at("started_by"), "mpirun");
  EXPECT_EQ(json::parse(mpi.out).at("hosts")[0].at("ranks_sharing_memory"), 2);
  EXPECT_TRUE(json::parse(mpi.out).at("hosts")[0].at("why_no_host_memory").is_null());
}

TEST(Doctor, refuses_ranks_that_there_cannot_be) {
  EXPECT_EQ(run("doctor --ranks -1").code, 2);
  EXPECT_EQ(run("doctor --timeout 0").code, 2);
  EXPECT_EQ(run("doctor --ranks 3", {.ranks = 2}).code, 2);
}

TEST(Doctor, warns_of_tasks_that_srun_started_without_pmix) {
  EXPECT_THAT(run("doctor --ranks 1", {.environment = "SLURM_STEP_NUM_TASKS=2"}).out,
              HasSubstr("warning     srun started 2 tasks that cannot find each other: use srun --mpi=pmix\n"));
  EXPECT_THAT(run("doctor --ranks 1", {.environment = "SLURM_STEP_NUM_TASKS=1"}).out, Not(HasSubstr("warning")));
}

TEST(Doctor, warns_of_cores_that_mpirun_keeps_from_a_process) {
  if (this_machine().cores == 1) GTEST_SKIP() << "one core cannot be kept from anybody";
  const Surroundings bound{.environment = "OMPI_MCA_orte_bound_at_launch=1", .limits = "taskset -p 1 $$ > /dev/null;"};
  EXPECT_THAT(run("doctor --ranks 1", bound).out,
              HasSubstr("warning     mpirun binds this process to 1 core of " + std::to_string(this_machine().cores) +
                        "; with --bind-to none it may use all\n"));
}

TEST(Doctor, shows_the_operation_that_failed_and_how) {
  Diagnosis diagnosis;
  diagnosis.backend = "mpi";
  diagnosis.ranks = 5;
  diagnosis.mpi_thread_level = "multiple";
  diagnosis.hosts = {{"n1", {0, 1, 2}, 8, int64_t{64} << 30, 3, ""},
                     {"node2", {3, 4}, 1, int64_t{1} << 29, 0, "the memory of local rank 1 cannot be opened"}};
  diagnosis.operations = {{"send", ""}, {"reduce_scatter", "rank 1: float32 x 7, sum: expected 5 at element 2, got 6"}};
  diagnosis.seconds = 0.25;
  Report report{.as_json = false};
  add(report, diagnosis);
  EXPECT_EQ(report.text.str(),
            "ranks       5 over MPI on 2 hosts, thread level multiple\n"
            "            n1     ranks 0-2   8 cores  64.0 GiB\n"
            "            node2  ranks 3, 4  1 core   0.5 GiB\n"
            "host memory n1: 3 ranks share their memory\n"
            "            node2: not shared: the memory of local rank 1 cannot be opened\n"
            "\n"
            "  send            ok\n"
            "  reduce_scatter  FAILED  rank 1: float32 x 7, sum: expected 5 at element 2, got 6\n"
            "1 of 2 operations ok in 0.25 s\n");
  EXPECT_EQ(report.json.at("ok"), false);
  EXPECT_EQ(report.json.at("operations")[1].at("failure"), diagnosis.operations[1].failure);
}

}  // namespace
}  // namespace adjoin::cli
