// The program on a terminal: a pseudo-terminal of a given width.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "paths.hpp"
#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// What the program writes to a terminal, with LF as its line ends.
std::string shown_on_terminal(unsigned short columns, const std::string& name, const std::string& arguments) {
  const std::string command =
      "exec env -u OMPI_COMM_WORLD_SIZE -u OMPI_COMM_WORLD_RANK -u PMIX_RANK -u PMI_RANK OMP_NUM_THREADS=1 TERM='" +
      name + "' '" ADJOIN_PROGRAM "' " + arguments;
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t process = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (process == 0) {
    ::execl("/bin/bash", "bash", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string shown;
  char bytes[4096];
  for (ssize_t got; (got = ::read(terminal, bytes, sizeof bytes)) > 0;) shown.append(bytes, static_cast<size_t>(got));
  int status = 0;
  ::waitpid(process, &status, 0);
  ::close(terminal);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << shown;
  for (size_t at; (at = shown.find("\r\n")) != shown.npos;) shown.erase(at, 1);
  return shown;
}

/// Characters of the longest line.
size_t width_of(const std::string& text) {
  size_t width = 0;
  for (const std::string& line : lines_of(text))
    width = std::max(width, static_cast<size_t>(std::count_if(line.begin(), line.end(),
                                                              [](char c) { return (c & '\xc0') != '\x80'; })));
  return width;
}

TEST(Help, fits_the_terminal) {
  for (const unsigned short columns : {30, 80, 132})
    for (const char* command : {"", "train", "collective", "bench step"}) {
      const std::string help = shown_on_terminal(columns, "xterm", std::string(command) + " --help");
      EXPECT_LE(width_of(help), columns) << help;
      EXPECT_THAT(help, HasSubstr("--help"));
    }
}

TEST(Help, is_80_columns_wide_where_there_is_no_terminal) {
  EXPECT_LE(width_of(run("train --help").out), 80u);
  EXPECT_GT(width_of(run("train --help").out), 70u);
}

TEST(Generate, shows_no_control_characters) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run("train --model decoder --data sample --samples 8 --preset gpt-tiny --layers 1 --hidden 16 --sequence 16 "
          "--vocab bytes --steps 1" +
          into(folder / "run"))
          .code,
      0);
  for (const std::string form : {"", "--json "})
    EXPECT_THAT(
        shown_on_terminal(80, "xterm",
                          "generate --tokens 1 " + form + "--model " + shell_quoted(folder / "run") +
                              " $'a\\x1b[1m\\xc2\\x9b\\xe2\\x80\\xae'"),
        AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xc2\x9b")), Not(HasSubstr("\u202e")), HasSubstr("1b[1m")));
  const std::string turned = "generate --tokens 1 --model " + shell_quoted(folder / "run") + " 'a\u202e' ";
  EXPECT_THAT(run(turned + "b").out, HasSubstr("a\u202e"));  // a file gets it as it is
  EXPECT_THAT(run(turned + "--json").out, HasSubstr("a\\u202e"));
}

TEST(Progress, fits_the_terminal) {
  const TemporaryFolder folder;
  for (const unsigned short columns : {30, 80}) {
    std::string shown =
        shown_on_terminal(columns, "xterm", kSmallRun + "--epochs 12" + into(folder / std::to_string(columns)));
    const size_t begin = shown.find('\r');
    ASSERT_NE(begin, shown.npos) << shown;
    shown = shown.substr(begin, shown.rfind('\r') - begin);
    EXPECT_THAT(shown, HasSubstr("/72  loss "));
    EXPECT_EQ(shown.find('\n'), shown.npos) << "the bar did not stay in its line";
    std::replace(shown.begin(), shown.end(), '\r', '\n');
    for (size_t at; (at = shown.find("\x1b[K")) != shown.npos;) shown.erase(at, 3);
    EXPECT_LT(width_of(shown), columns);
  }
}

TEST(Progress, is_plain_lines_on_a_dumb_terminal) {
  const TemporaryFolder folder;
  const std::string shown = shown_on_terminal(80, "dumb", kSmallRun + "--epochs 2" + into(folder / "run"));
  EXPECT_THAT(shown, HasSubstr("\nstep 12/12  loss "));
  EXPECT_THAT(shown, Not(HasSubstr("\r")));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace adjoin::cli
