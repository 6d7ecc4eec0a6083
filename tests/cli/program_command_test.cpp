#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/small_program.hpp"

namespace adjoin::cli {
namespace {

using namespace test;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(ProgramCommand, shows_inputs_parameters_and_how_operators_run) {
  const TemporaryFolder folder;
  write_small_program(folder / "net.pt2");
  const std::string command = "program " + shell_quoted(folder / "net.pt2");
  const Outcome shown = run(command);
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("net.pt2: 1 parameter of 2 elements; eval mode: the training graph\n"));
  EXPECT_THAT(shown.out, HasSubstr("x      Float  [s0, 2]"));
  EXPECT_THAT(shown.out, ContainsRegex("aten.relu +1  by a rule"));
  const auto json = nlohmann::json::parse(run(command + " --json").out);
  EXPECT_EQ(json["parameters"][0]["name"], "scale");
  EXPECT_EQ(json["operators"].size(), 2u);
  EXPECT_EQ(json["inputs"][0]["sizes"][0], "s0");
}

TEST(ProgramCommand, refuses_other_files_in_one_line) {
  const TemporaryFolder folder;
  put(folder / "net.pt2", "some text");
  for (const char* name : {"net.pt2", "none.pt2"}) {
    const Outcome refused = run("program " + shell_quoted(folder / name));
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(lines_of(refused.err).size(), 1u) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(name));
  }
}

}  // namespace
}  // namespace adjoin::cli
