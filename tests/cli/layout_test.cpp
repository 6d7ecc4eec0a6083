#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paths.hpp"
#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

using nlohmann::json;
using test::contents_of;
using test::lines_of;
using test::Outcome;
using test::run;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string printed(const std::string& arguments) {
  return test::run_well("layout " + arguments).out;
}

json printed_layout(const std::string& arguments) {
  return test::printed_json("layout " + arguments);
}

std::string drawn(const std::string& arguments) {
  const TemporaryFolder folder;
  printed(arguments + " --svg " + test::shell_quoted(folder / "layout.svg"));
  return contents_of(folder / "layout.svg");
}

TEST(LayoutCommand, says_which_rank_holds_what) {
  EXPECT_EQ(printed("--shape 4x4x3 --grid 1x2x2"),
            "[4, 4, 3] on a grid of 1 x 2 x 2, 4 ranks\n"
            "\n"
            "rank  elements  at     holds\n"
            "   0        16  0,0,0  [0:4, 0:2, 0:2]\n"
            "   1         8  0,0,1  [0:4, 0:2, 2:3]\n"
            "   2        16  0,1,0  [0:4, 2:4, 0:2]\n"
            "   3         8  0,1,1  [0:4, 2:4, 2:3]\n");
}

TEST(LayoutCommand, says_what_a_move_sends_to_whom) {
  const json move = printed_layout("--shape 4x6 --grid 2x1 --to-grid 1x3")["move"];
  EXPECT_EQ(move["boxes"], 4);  // ranks 0 and 1 have halves of all columns, of which ranks 0, 1 and 2 want thirds
  EXPECT_EQ(move["elements"], 16);
  EXPECT_EQ(move["bytes"], 64);
  EXPECT_EQ(move["staying"], 8);
  const json first = {{"from", 1}, {"to", 0}, {"boxes", 1}, {"elements", 4}, {"bytes", 16}};
  EXPECT_EQ(move["transfers"][0], first);
  EXPECT_THAT(printed("--shape 4x6 --grid 2x1 --to-grid 1x3"),
              AllOf(HasSubstr("4 boxes of 16 elements between ranks\n8 elements from the rank itself\n"
                              "64 bytes of float32, carried out as an exchange\n"),
                    HasSubstr("   1   0      1         4     16\n")));
}

TEST(LayoutCommand, adds_up_a_partial_tensor_and_gathers_to_copies) {
  // Each of 4 ranks keeps a quarter of its 8 summands and receives it from the 3 others.
  const json summed = printed_layout("--shape 8 --grid 1x4 --kind partial --to-grid 4x1")["move"];
  EXPECT_EQ(summed["elements"], 24);
  EXPECT_EQ(summed["staying"], 8);
  EXPECT_THAT(printed("--shape 8 --grid 4 --to-grid 1x4 --to-kind copied"), HasSubstr("copied along axis 1"));
}

TEST(LayoutCommand, shows_the_halo_of_windows) {
  const json halo = printed_layout("--shape 10 --grid 4 --window 2 --stride 2");  // 3, 3, 2, 2 indices
  EXPECT_EQ(halo["to"]["ranks"][0]["ranges"], json::parse("[[[0, 4]]]"));
  EXPECT_EQ(halo["to"]["ranks"][1]["ranges"], json::parse("[[[4, 6]]]"));
  EXPECT_EQ(halo["move"]["boxes"], 1);
  EXPECT_EQ(halo["windows"]["outputs"]["layout"]["shape"], json::parse("[5]"));
  EXPECT_THAT(printed("--shape 10 --grid 3 --window 3 --padding 1"), HasSubstr("rank  computes  needs   adds\n"
                                                                               "   0  [0:4]     [0:5]   [1|0]\n"
                                                                               "   1  [4:7]     [3:8]   [0|0]\n"
                                                                               "   2  [7:10]    [6:10]  [0|1]\n"));
  EXPECT_THAT(printed("--shape 10 --grid 3 --window 3 --padding 1 --padding-mode circular"),
              HasSubstr("   0  [0:4]     [9:10+0:5]  [0|0]\n"));
  EXPECT_THAT(printed("--shape 2x8 --grid 1x2 --window 1x3 --stride 1x2 --transposed"), HasSubstr("[2, 17] outputs"));
}

TEST(LayoutCommand, fits_80_columns) {
  const std::string table = printed("--shape 10000x10000x10000x1000 --grid 2x2x2x2 --to-grid 1x4x2x2");
  for (const std::string& line : lines_of(table)) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(table, HasSubstr("[0:5000, 0:5000, 0:5000, 0:500]"));
}

TEST(LayoutCommand, lists_so_many_transfers_and_says_how_many_more_there_are) {
  const std::string table = printed("--shape 32x32 --grid 32x1 --to-grid 1x32");
  EXPECT_THAT(table, HasSubstr("… and between 792 more pairs of ranks"));  // 32 * 31 - 200
  EXPECT_EQ(printed_layout("--shape 32x32 --grid 32x1 --to-grid 1x32")["move"]["transfers"].size(), 992u);
}

TEST(LayoutCommand, draws_what_it_shows) {
  EXPECT_THAT(drawn("--shape 4x4x3 --grid 1x2x2"),
              AllOf(StartsWith("<svg "), HasSubstr("<title>rank 3: [0:4, 2:4, 2:3]</title>"),
                    HasSubstr("fill=\"white\""), HasSubstr(">[0:4, …]</text>"), Not(HasSubstr("before"))));
  EXPECT_THAT(drawn("--shape 4x6 --grid 2x1 --to-grid 1x3"),
              AllOf(HasSubstr(">before</text>"), HasSubstr(">1→0</text>")));
  EXPECT_THAT(drawn("--shape 8 --grid 1x2 --kind partial --to-grid 2x1"), HasSubstr(">sum→0</text>"));
  EXPECT_THAT(drawn("--shape 10 --grid 3 --window 3 --padding 1"), HasSubstr("stroke-dasharray"));
  EXPECT_THAT(drawn("--shape 0x4 --grid 2x2"), StartsWith("<svg "));
  EXPECT_THAT(drawn("--shape 4096x4096 --grid 2x1 --to-grid 1x2"), HasSubstr(">0→1</text>"));
}

/// The commands of docs/distributed-tensors.md with what it shows of their output, "…" being left out.
TEST(LayoutCommand, prints_and_draws_what_the_documentation_shows) {
  const std::string root = ADJOIN_SOURCE_DIR "/", prompt = "    $ adjoin layout ", option = " --svg ";
  std::string output;
  int commands = 0, shown = 0;
  for (const std::string& line : lines_of(contents_of(root + "docs/distributed-tensors.md"))) {
    if (line.starts_with(prompt)) {
      const size_t at = line.find(option);
      ASSERT_NE(at, line.npos) << line;
      const std::string arguments = line.substr(prompt.size(), at - prompt.size());
      output = "\n" + printed(arguments);
      EXPECT_EQ(contents_of(root + line.substr(at + option.size())), drawn(arguments)) << line;
      ++commands;
    } else if (line.starts_with("    ") && line != "    …") {
      EXPECT_THAT(output, HasSubstr("\n" + line.substr(4) + "\n"));
      ++shown;
    }
  }
  EXPECT_EQ(commands, 6);
  EXPECT_GT(shown, 20);
}

TEST(LayoutCommand, refuses_what_it_cannot_show) {
  const std::pair<const char*, const char*> cases[] = {
      {"--grid 2", "--shape is needed"},
      {"--shape 4", "--grid is needed"},
      {"--shape 4xx4 --grid 2x2", "--shape is 4xx4, expected numbers from 0 to "},
      {"--shape 4x-1 --grid 2x2", "--shape is 4x-1, expected numbers from 0 to "},
      {"--shape '' --grid 2x2", "--shape is empty, expected a value"},
      {"--shape 4x4 --grid 2", "--grid is 2, expected a number for each of the 2 dims"},
      {"--shape 4x4 --grid 0x2", "--grid is 0x2, expected numbers from 1 to 1024"},
      {"--shape 4x4 --grid 64x64", "--grid is 64x64, expected at most 1024 ranks"},
      {"--shape 4x4 --grid 2x2 --to-grid 2", "--to-grid is 2, expected a number for each of the 2 dims"},
      {"--shape 1000000000000x1000000000000 --grid 1x1", "expected at most 1125899906842624 elements"},
      {"--shape 1x1x1x1x1x1x1x1x1 --grid 1", "--shape has 9 dims, expected at most 8"},
      {"--shape 4 --grid 2 --kind partial", "--kind: every axis of --grid 2 cuts a dim; name one more"},
      {"--shape 4 --grid 1x2 --kind whole", "--kind is whole, expected replicated, copied or partial"},
      {"--shape 4 --grid 2 --to-kind copied", "--to-kind has no effect without --to-grid"},
      {"--shape 4 --grid 1x2 --kind copied --to-grid 2", "a tensor that is copied along '1' must stay copied along it"},
      {"--shape 4 --grid 2 --stride 2", "--stride has no effect without --window"},
      {"--shape 4 --grid 2 --window 3 --to-grid 1", "--to-grid and --window are two moves; give one"},
      {"--shape 4 --grid 2 --window 5",
       "expected a kernel that spans at most the 4 padded inputs, got one that spans 5"},
      {"--shape 4 --grid 2 --window 1x1", "--window is 1x1, expected one number, or one for each of the 1 dims"},
      {"--shape 4 --grid 2 --window 3 --padding-mode mirror", "expected zeros, replicate, reflect or circular"},
      {"--shape 4 --grid 2 --window 9 --padding 4 --padding-mode reflect", "expected a reflect padding of at most 3"},
      {"--shape 64x64x64x64x64x64x64x64 --grid 4x4x4x4x4x1x1x1 --window 65 --padding 64 --padding-mode circular",
       "expected a move of at most 1048576 boxes, this has about "},
      {"--shape 100 --grid 100 --svg /tmp/never.svg", "--svg draws up to 64 ranks, got 100"},
      {"--shape 16x4x4 --grid 16x1x1 --svg /tmp/never.svg", "--svg draws up to 12 slices"},
      {"--shape 4 --grid 2 --svg /none/never.svg", "/none/never.svg"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome = run(std::string("layout ") + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("adjoin: "), HasSubstr(expected))) << arguments;
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  }
}

}  // namespace
}  // namespace adjoin::cli
