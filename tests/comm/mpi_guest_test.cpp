// adjoin in a program that owns MPI; tests/support/guest_program.cpp is that program.

#include <gtest/gtest.h>

#include <string>

#include "paths.hpp"
#include "tests/support/job.hpp"

namespace adjoin {
namespace {

const std::string kAtHome = "guest at home\nguest at home\n";

TEST(MpiGuest, works_on_a_part_of_the_processes_at_each_thread_level_and_ends_its_world_alone) {
  for (const char* level : {"0", "3"}) {  // MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE
    const testing::Outcome outcome = testing::run_job_of(ADJOIN_GUEST_PROGRAM, 3, level);
    EXPECT_EQ(outcome.code, 0) << level;
    EXPECT_EQ(outcome.text, kAtHome) << level;
  }
}

}  // namespace
}  // namespace adjoin
