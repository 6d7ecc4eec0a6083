// The main of all tests: by itself, or under mpirun, where rank 0 reports and the others say only what failed.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "tests/support/worlds.hpp"

namespace {

/// Prints the failures of one rank, each led by it.
class FailuresOfRank : public ::testing::EmptyTestEventListener {
 public:
  explicit FailuresOfRank(int rank) : rank_(rank) {}

 private:
  void OnTestStart(const ::testing::TestInfo& test) override { test_ = &test; }
  void OnTestEnd(const ::testing::TestInfo&) override { test_ = nullptr; }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::printf("rank %d: %s.%s failed at %s:%d\n%s\n", rank_, test_ ? test_->test_suite_name() : "-",
                test_ ? test_->name() : "-", result.file_name() ? result.file_name() : "-", result.line_number(),
                result.summary());
    std::fflush(stdout);
  }

  int rank_;
  const ::testing::TestInfo* test_ = nullptr;  // gtest holds the lock that current_test_info() takes
};

int run_under_mpi() {
  const char* ranks_of_a_host = std::getenv("ADJOIN_TEST_RANKS_OF_A_HOST");
  const adjoin::MpiSession session({.checked = adjoin::LaunchOptions().checked,
                                    .ranks_of_a_host = ranks_of_a_host ? std::atoi(ranks_of_a_host) : 0});
  const adjoin::Communicator world(session.world());
  if (world.rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOfRank(world.rank()));
  }
  adjoin::testing::use_mpi_world(world);
  int32_t failed[] = {RUN_ALL_TESTS()};
  adjoin::testing::leave_mpi_world();
  world.all_reduce(adjoin::buffer(failed), adjoin::Reduction::max);
  return failed[0];
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return adjoin::started_by_mpi() ? run_under_mpi() : RUN_ALL_TESTS();
}
