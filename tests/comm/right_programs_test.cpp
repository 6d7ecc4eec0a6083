// Random programs that are right: every result is what plain loops compute, nobody is accused, and all end.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>

#include "adjoin/comm/launch.hpp"
#include "tests/support/programs/generator.hpp"
#include "tests/support/programs/odd.hpp"
#include "tests/support/programs/run.hpp"
#include "tests/support/programs/trials.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace testing::programs;

constexpr uint64_t kPrograms = testing::kIsSanitized ? 100 : 1300;  // of 85 calls and more: 100,000 and more
constexpr uint64_t kProgramsOfMpi = 62;                             // 5,000 calls and more

/// The first thing that went wrong in one program, on any thread of this process.
class Finding {
 public:
  void note(const std::string& problem) {
    const std::lock_guard lock(mutex_);
    if (text_.empty()) text_ = problem;
  }
  const std::string& text() const { return text_; }

 private:
  std::mutex mutex_;
  std::string text_;
};

void run_on_threads(const Program& program, Finding& finding) {
  try {
    launch_threads(program.ranks(),
                   [&](const Communicator& world) {
                     run(program, world, [&](const std::string& problem) { finding.note(problem); });
                   },
                   {.deadline = std::chrono::seconds(20), .checked = program.seed % 2 == 0});
  } catch (const std::exception& e) {
    finding.note(e.what());
  }
}

void run_in_job(const Program& program, Finding& finding) {
  testing::for_each_world({}, [&](const Communicator& world) {
    try {
      run(program, world, [&](const std::string& problem) { finding.note(problem); });
    } catch (const std::exception&) {  // which ends the job
      std::fprintf(stderr, "rank %d failed in %s", world.rank(), describe(program).c_str());
      throw;
    }
  });
}

TEST(RightPrograms, give_right_results_and_accuse_nobody) {
  const int job = mpi_job_size();
  const Options options = started_by_mpi() ? Options{.fewest_ranks = job, .most_ranks = job} : Options();
  uint64_t calls = 0;
  for (const uint64_t seed : seeds(started_by_mpi() ? kProgramsOfMpi : kPrograms)) {
    const Program program = right_program(seed, options);
    for (const Step& step : program.steps) calls += is_call(step.kind);
    const HangGuard guard(describe(program));
    Finding finding;
    started_by_mpi() ? run_in_job(program, finding) : run_on_threads(program, finding);
    ASSERT_EQ(finding.text(), "") << "in " << describe(program);
  }
  std::printf("%llu calls\n", static_cast<unsigned long long>(calls));
}

TEST(RightPrograms, accuse_nobody_who_is_late_or_leaves_or_frees_a_group) {
  for (const char* kind : {"late", "leaves", "frees"})
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_NO_THROW(launch_threads(
          3, [&](const Communicator& world) { run_odd(kind, rank, world, std::chrono::milliseconds(300)); }))
          << kind << ", rank " << rank;
}

}  // namespace
}  // namespace adjoin
