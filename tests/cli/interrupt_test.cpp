#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

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
        outcome.err.find("adjoin: interrupted: the step is finished and saved; once more ends at once\n");
    const size_t advice = outcome.err.find("adjoin: interrupted; continue with: adjoin train --resume ");
    EXPECT_LT(answer, advice) << outcome.err;
    EXPECT_NE(advice, std::string::npos) << outcome.err;
    EXPECT_TRUE(fs::exists(folder / "run" / "checkpoint" / "state.json"));
  }
}

TEST(InterruptedRun, ends_within_its_final_evaluation_and_goes_on_with_it) {
  const TemporaryFolder folder;
  std::string reviews = "text,label\na good film,1\na bad film,0\n";
  put(folder / "train.csv", reviews);
  for (int i = 0; i < 3'000; ++i) reviews += "a film that is as long as it is good and longer than it is bad,1\n";
  put(folder / "test.csv", reviews);
  const std::string train = "train --epochs 1 --dp 2 --data " + shell_quoted(folder.path()) +
                            " --preset tiny --vocabulary-size 300 --layers 8 --hidden 128 --threads-per-rank 1";
  Running running(train + into(folder / "run"));
  wait_for_steps(folder / "run", 1);
  for (int tries = 0; tries < 10'000 && !fs::exists(folder / "run" / "checkpoint"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  running.signal(SIGINT);
  EXPECT_EQ(running.wait().code, 128 + SIGINT);
  EXPECT_FALSE(fs::exists(folder / "run" / "summary.json"));
  EXPECT_FALSE(fs::exists(folder / "run" / "model.safetensors"));
  const Outcome resumed = run("train --resume " + shell_quoted(folder / "run"));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(fs::exists(folder / "run" / "summary.json"));
}

}  // namespace
}  // namespace adjoin::cli
