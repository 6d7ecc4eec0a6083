#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLongRun = kSmallRun + "--epochs 10000 --checkpoint-every 1000000 ";

TEST(InterruptedRun, says_at_once_what_it_does_saves_and_exits_with_128_and_the_signal) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const TemporaryFolder folder;
    Running running(kLongRun + "--tp 2" + into(folder / "run"));
    wait_for_steps(folder / "run", 5);
    running.signal(signal);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.code, 128 + signal) << outcome.err;
    const size_t answer =
        outcome.err.find("adjoin: interrupted: finishing and saving this step; interrupt again to end now\n");
    const size_t advice = outcome.err.find("adjoin: interrupted; continue with: adjoin train --resume ");
    EXPECT_LT(answer, advice) << outcome.err;
    EXPECT_NE(advice, std::string::npos) << outcome.err;
    EXPECT_TRUE(fs::exists(checkpoint_of(folder / "run") / "state.json"));
  }
}

TEST(InterruptedRun, ends_within_its_final_evaluation_and_goes_on_with_it) {
  const TemporaryFolder folder;
  constexpr int kEpochs = 3;  // of one step, on one text of the two, so that the loss on the other rises from the first
  std::string reviews = "text,label\na good film,1\na bad film,0\n";
  put(folder / "train.csv", reviews);
  for (int i = 0; i < 3'000; ++i) reviews += "a film that is as long as it is good and longer than it is bad,1\n";
  put(folder / "test.csv", reviews);
  const std::string train = "train --epochs " + std::to_string(kEpochs) +
                            " --validation 0.5 --lr 0.1 --warmup 0 --dp 2 --data " + shell_quoted(folder.path()) +
                            " --preset tiny --vocabulary-size 300 --layers 8 --hidden 128 --threads-per-rank 1";
  Running running(train + into(folder / "run"));
  const auto state = [&]() -> std::string {
    try {
      return contents_of(checkpoint_of(folder / "run") / "state.json");
    } catch (const std::runtime_error&) {  // there is none yet
      return "";
    }
  };
  wait_for_steps(folder / "run", 2 * kEpochs);
  for (int tries = 0; tries < 10'000; ++tries) {
    if (state().find("\"step\": 3,") != std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  running.signal(SIGINT);
  EXPECT_EQ(running.wait().code, 128 + SIGINT);
  EXPECT_FALSE(fs::exists(folder / "run" / "summary.json"));
  EXPECT_FALSE(fs::exists(folder / "run" / "model.safetensors"));
  ASSERT_THAT(state(), HasSubstr("\"best_step\": 1,")) << "the last weights are the best, so that nothing is tested";
  EXPECT_NE(contents_of(checkpoint_of(folder / "run") / "model.safetensors"),
            contents_of(checkpoint_of(folder / "run") / "best.safetensors"));
  const Outcome resumed = run("train --microbatches 2 --resume " + shell_quoted(folder / "run"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(fs::exists(folder / "run" / "summary.json"));
}

// As mpirun does it: when a process of the job dies, and on Ctrl-C, it sends the others SIGTERM and reads little more of them.
TEST(InterruptedRun, under_mpi_says_at_once_how_to_go_on_and_never_that_something_is_saved) {
  const TemporaryFolder folder;
  Running running(kLongRun + "--dp 2" + into(folder / "run"), {.ranks = 2});
  wait_for_steps(folder / "run", 5);
  running.signal(SIGINT);
  const Outcome outcome = running.wait();
  EXPECT_THAT(outcome.err, HasSubstr("adjoin: once it is saved, continue with: adjoin train --resume " +
                                     (folder / "run").string() + "\n"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("is finished and saved")));
}

// mpirun sends the ranks that have not failed SIGTERM then, too.
TEST(InterruptedRun, is_not_what_a_refused_job_calls_itself) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(kSmallRun + "--steps 2" + into(folder / "run")).code, 0);
  const Outcome outcome = run("train --dp 3 --steps 1 --resume " + shell_quoted(folder / "run"), {.ranks = 3});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the run has made 2 steps, but --steps is 1"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("interrupted")));
}

}  // namespace
}  // namespace adjoin::cli
