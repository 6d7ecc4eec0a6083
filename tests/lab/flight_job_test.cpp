// The flight records of MPI jobs that tests/support/fault_program.cpp lets fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "adjoin/lab/flight_comparison.hpp"
#include "adjoin/lab/flight_reading.hpp"
#include "tests/support/job.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::lab {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// What a job of three ranks has told, and left in its records.
struct Failed {
  testing::Outcome outcome;
  JobRecord job;
  std::vector<std::string> differences;
};

Failed failed_job(const std::string& arguments, const std::string& environment = "") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / kFlightFolder);
  Failed failed{
      .outcome = testing::run_job(3, arguments, "ADJOIN_TEST_FLIGHT='" + folder.path().string() + "' " + environment),
      .job = read_flight_records(folder.path()),
      .differences = {}};
  for (const RecordDifference& difference : differences(failed.job))
    failed.differences.push_back(describe(difference, failed.job));
  EXPECT_THAT(failed.job.damage, IsEmpty());
  EXPECT_EQ(failed.job.of_ranks.size(), 3u);
  EXPECT_FALSE(failed.job.goes_on());
  return failed;
}

TEST(FlightJob, that_deadlocks_has_what_was_told_and_the_pending_messages) {
  const Failed failed = failed_job("0 circle");
  EXPECT_THAT(failed.job.failure, HasSubstr("deadlock"));
  EXPECT_THAT(failed.outcome.text,
              AllOf(HasSubstr("adjoin: " + failed.job.failure), HasSubstr("adjoin: rank 0 has noted it")));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(failed.differences,
                Contains(AllOf(StartsWith("rank " + std::to_string(rank) + " waited in recv #2"), HasSubstr("tag 5"))));
}

TEST(FlightJob, that_meets_its_deadline_shows_who_computed) {
  const Failed failed = failed_job("2 compute", "ADJOIN_DEADLINE=0.5");
  EXPECT_THAT(failed.job.failure, HasSubstr("deadline of 0.5 s"));
  EXPECT_THAT(failed.differences, ElementsAre(StartsWith("rank 2 never began all_reduce #2")));
}

TEST(FlightJob, whose_rank_throws_has_its_message) {
  const Failed failed = failed_job("1 other", "ADJOIN_HOST_MEMORY=off");
  EXPECT_EQ(failed.job.failure, "rank 1: the disk is full");
  EXPECT_THAT(failed.outcome.text, HasSubstr("adjoin: rank 1: the disk is full\nadjoin: rank 1 has noted it\n"));
  EXPECT_EQ(failed.job.of_ranks[1].failure, failed.job.failure);
}

}  // namespace
}  // namespace adjoin::lab
