// Random programs of which one rank differs under MPI in checked mode, each in a job of its own; and programs that look
// wrong to a watchdog and are right.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/job.hpp"
#include "tests/support/programs/trials.hpp"
#include "tests/support/programs/wrong.hpp"

namespace adjoin {
namespace {

using namespace testing::programs;
using testing::Outcome;
using testing::run_job;

/// The class of what launch has thrown, as far as the exit code says it.
std::string error_of(const Outcome& outcome, const std::string& expected) {
  if (outcome.code == 0) return "nothing";
  if (outcome.code == 2) return "InvalidArgument";
  return expected == "InvalidArgument" ? "another" : expected;
}

// That they are told of by the deadline is a difference, so no clock is read.
TEST(MpiFaults, are_told_with_the_cause_in_random_programs) {
  const std::vector<uint64_t> all = seeds(40);
  for_each_seed(all, /*at_a_time=*/3, [&](uint64_t seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    const WrongProgram program = wrong_program(seed, ranks);
    const Outcome outcome = run_job(
        ranks, "0 random " + std::to_string(seed),
        "ADJOIN_CHECKED=1 ADJOIN_DEADLINE=20 ADJOIN_HOST_MEMORY=" + std::string(seed / 3 % 2 == 0 ? "on" : "off"));
    EXPECT_EQ(difference(program, error_of(outcome, program.error), outcome.text), "")
        << "seed " << seed << ": " << describe(program);
  });
}

TEST(MpiFaults, are_none_where_a_rank_is_late_or_stopped_or_done_early) {
  struct Odd {
    const char* kind;
    const char* milliseconds;
    bool is_checked;
  };
  for (const Odd& odd : {Odd{"late", "2500", true}, Odd{"stopped", "4500", true}, Odd{"leaves", "2500", false},
                         Odd{"frees", "2500", false}}) {
    const Outcome outcome = run_job(3, std::string("1 ") + odd.kind + " " + odd.milliseconds,
                                    odd.is_checked ? "ADJOIN_CHECKED=1" : "ADJOIN_CHECKED=0");
    EXPECT_EQ(outcome.code, 0) << odd.kind << ": " << outcome.text;
  }
}

}  // namespace
}  // namespace adjoin
