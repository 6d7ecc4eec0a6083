// Processes of one host that reach each other's memory, as users of the program see them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The loss of each step and evaluation of a training, as it was written.
std::vector<std::string> losses_with(const std::string& options, int ranks) {
  const TemporaryFolder folder;
  EXPECT_EQ(run(kSmallRun + "--epochs 2 " + options + into(folder / "run"), {.ranks = ranks}).code, 0);
  std::vector<std::string> losses;
  for (const std::string& line : lines_of(contents_of(metrics_of(folder / "run"))))
    losses.push_back(nlohmann::json::parse(line).at("loss").dump());
  return losses;
}

TEST(HostMemory, gives_processes_the_losses_of_threads_to_the_last_bit) {
  for (const char* options : {"--tp 2 --sp ", "--dp 2 --precision bf16 ", "--cp 2 --cp-method ulysses "}) {
    const std::vector<std::string> of_threads = losses_with(options, 0);
    EXPECT_GE(of_threads.size(), 13u);
    EXPECT_EQ(losses_with(options, 2), of_threads) << options;
  }
}

TEST(HostMemory, that_is_turned_off_is_told_of_by_the_doctor) {
  EXPECT_THAT(run("doctor --host-memory off", {.ranks = 2}).out,
              HasSubstr("host memory not shared: --host-memory or ADJOIN_HOST_MEMORY turns it off\n"));
}

TEST(HostMemory, is_refused_as_any_other_word) {
  for (const char* command : {"doctor", "bench collectives", "bench pipeline 1f1b", "train --data sample"}) {
    const Outcome outcome = run(std::string(command) + " --host-memory maybe");
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--host-memory is"), HasSubstr("maybe"), HasSubstr("auto, on")))
        << command;
  }
}

TEST(HostMemory, is_said_to_change_nothing_on_threads) {
  for (const std::string word : {"on", "off", "auto"}) {
    const std::vector<std::string> said = lines_of(run("predict --model /nowhere text --host-memory " + word).err);
    ASSERT_EQ(said.size(), word == "auto" ? 1u : 2u);
    if (word == "auto") continue;
    EXPECT_EQ(said[0], "adjoin: warning: --host-memory " + word +
                           " changes nothing: the ranks are threads of one process, which have its memory in common");
  }
}

}  // namespace
}  // namespace adjoin::cli
