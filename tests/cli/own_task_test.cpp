// The commands of the program with the run of a task that it does not know.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/train/commands.hpp"
#include "tests/cli/program.hpp"
#include "tests/support/own_task.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Trains in a process of its own, as another program does, and without its output.
void train_own(const std::filesystem::path& folder) {
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    try {
      train::train(test::of_plain_task(folder.string()), test::plain_task);
      ::_exit(0);
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  ASSERT_EQ(status, 0);
}

TEST(RunsOfOtherPrograms, are_reported_watched_and_listed_and_all_else_says_who_can_use_them) {
  const TemporaryFolder folder;
  const std::filesystem::path own = folder / "own";
  train_own(own);
  run_well("report " + shell_quoted(own) + " --out " + shell_quoted(folder / "page.html"));
  EXPECT_THAT(contents_of(folder / "page.html"),
              AllOf(HasSubstr("squares"), HasSubstr("--batch"), Not(HasSubstr("--hidden")), Not(HasSubstr("--vocab")),
                    HasSubstr("only the program of its task can plan it")));
  EXPECT_THAT(run_well("watch " + shell_quoted(own)).out, HasSubstr("finished"));
  EXPECT_THAT(run_well("checkpoint --verify " + shell_quoted(own)).out, HasSubstr("verified"));
  const std::string model = " --model " + shell_quoted(own);
  for (const std::string& command :
       {"evaluate --data sample" + model, "predict text" + model, "generate text" + model,
        "export" + model + into(folder / "exported"), "train --resume " + shell_quoted(own),
        "train --data sample --from " + shell_quoted(own) + into(folder / "new"),
        "train --data sample --config " + shell_quoted(own / "config.json") + into(folder / "new")}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("is of the task \"squares\" of another program")) << command;
  }
}

TEST(RunsOfOtherPrograms, that_have_not_ended_are_continued_by_these) {
  const TemporaryFolder folder;
  const std::filesystem::path own = folder / "own";
  train_own(own);
  for (const char* file : {"summary.json", "model.safetensors"}) std::filesystem::remove(own / file);
  EXPECT_THAT(run("watch " + shell_quoted(own)).err, HasSubstr("continue with: the program of its task, with resume"));
}

}  // namespace
}  // namespace adjoin::cli
