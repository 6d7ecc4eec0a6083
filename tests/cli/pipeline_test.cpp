#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/support/pytorch_schedules.hpp"

namespace adjoin::cli {
namespace {

using nlohmann::json;
using test::contents_of;
using test::lines_of;
using test::Outcome;
using test::put;
using test::run;
using test::shell_quoted;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Outcome run_pipeline(const std::string& arguments) {
  Outcome outcome = test::run_well("pipeline " + arguments);
  if (arguments.find("--json") != std::string::npos) return outcome;
  for (const std::string& line : lines_of(outcome.out)) EXPECT_LE(line.size(), 80u) << line;
  return outcome;
}

json json_of_pipeline(const std::string& arguments) {
  return json::parse(run_pipeline(arguments + " --json").out);
}

TEST(PipelineCommand, draws_a_row_a_rank_and_says_how_long_it_takes) {
  EXPECT_EQ(run_pipeline("1f1b --ranks 3 --microbatches 4").out,
            "1f1b on 3 ranks, 4 micro-batches\n"
            "\n"
            "rank\n"
            "   0  F0==F1==F2==................B0======F3==B1======....B2======....B3======\n"
            "   1  ....F0==F1==........B0======F2==B1======F3==B2======....B3======........\n"
            "   2  ........F0==B0======F1==B1======F2==B2======F3==B3======................\n"
            "\n"
            "F forward, B backward, . idle\n"
            "a column is 0.25\n"
            "\n"
            "costs of ranks  forward 1, input gradient 1, weight gradient 1, transfer 0\n"
            "makespan        18\n"
            "bubble          0.3333 of the time, by formula 0.3333\n"
            "most in flight  3 on rank 0, 2 on rank 1, 1 on rank 2\n");
  EXPECT_THAT(run_pipeline("interleaved --ranks 8 --microbatches 9 --transfer 0.1").out,
              AllOf(HasSubstr("interleaved on 8 ranks, 16 stages, 9 micro-batches\n"), HasSubstr(" no formula holds\n"),
                    HasSubstr("most in flight  from 9 on rank 7 to 17 on rank 0\n")));
}

TEST(PipelineCommand, prints_the_numbers_as_json) {
  EXPECT_EQ(json_of_pipeline("zb-h1 --ranks 2 --microbatches 4 --forward 3 --backward 2 --weight 1"),
            json::parse(R"({"schedule": "zb-h1", "ranks": 2, "stages": 2, "microbatches": 4, "actions": 24,
                            "makespan": 28.0, "bubble": 0.14285714285714285, "bubble_formula": 0.14285714285714285,
                            "most_in_flight": [2, 2]})"));
  const json interleaved =
      json_of_pipeline("interleaved --ranks 4 --microbatches 8 --chunks 3 --forward 6 --transfer 0");
  EXPECT_EQ(interleaved["stages"], 12);
  EXPECT_NEAR(interleaved["bubble"].get<double>(), 3.0 / 27, 1e-12);
  EXPECT_NEAR(interleaved["bubble_formula"].get<double>(), 3.0 / 27, 1e-12);
  EXPECT_EQ(json_of_pipeline("interleaved")["stages"], 8);
  EXPECT_EQ(json_of_pipeline("interleaved --microbatches 6")["bubble_formula"], nullptr);
  EXPECT_EQ(json_of_pipeline("1f1b --transfer 0.5")["bubble_formula"], nullptr);
}

TEST(PipelineCommand, writes_and_reads_tables) {
  const TemporaryFolder folder;
  const std::string csv = shell_quoted(folder / "my.csv"), svg = shell_quoted(folder / "my.svg");
  run_pipeline("1f1b --ranks 2 --microbatches 2 --csv " + csv + " --svg " + svg);
  EXPECT_EQ(contents_of(folder / "my.csv"), "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n");
  EXPECT_THAT(contents_of(folder / "my.svg"), AllOf(StartsWith("<svg "), HasSubstr(">rank 1</text>")));
  const json read = json_of_pipeline(csv + " --ranks 2 --microbatches 2");
  EXPECT_EQ(read["makespan"], 9);
  EXPECT_EQ(read["bubble_formula"], nullptr);
  EXPECT_EQ(read["schedule"], (folder / "my.csv").string());
}

TEST(PipelineCommand, reads_pytorchs_tables) {
  const TemporaryFolder folder;
  const std::string csv = (folder / "pytorch.csv").string();
  put(csv, test::kZBVZeroBubble);
  const json v = json_of_pipeline(shell_quoted(csv));
  EXPECT_EQ(v["stages"], 4);
  EXPECT_EQ(v["microbatches"], 4);
  EXPECT_LT(v["bubble"].get<double>(), json_of_pipeline("zb-h1 --ranks 2 --microbatches 4")["bubble"].get<double>());
  for (const char* table : {test::kInterleaved1F1B, test::kInterleavedZeroBubble, test::kDualPipeV}) {
    put(csv, table);
    EXPECT_GT(json_of_pipeline(shell_quoted(csv))["actions"].get<int>(), 0);
  }
}

TEST(PipelineCommand, tells_of_six_million_actions_within_a_minute) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = run_pipeline("zb-h1 --ranks 1024 --microbatches 2048");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("\nmakespan        7167\n"), HasSubstr("0.1427 of the time, by formula 0.1427\n"),
                    HasSubstr("\nmost in flight  1,024 on ranks 0-1023\n")));
  EXPECT_LT(seconds, 60);  // some seconds, and hours if its time grew with the square of the actions
}

TEST(PipelineCommand, refuses_bad_input_with_one_line_and_writes_nothing) {
  const TemporaryFolder folder;
  const auto table = [&](const char* name, const char* text) {
    put(folder / name, text);
    return shell_quoted(folder / name);
  };
  const std::string right = table("right.csv", "0F0,,0B0\n,1F0,1B0\n");
  const std::pair<std::string, std::string> cases[] = {
      {"", "a schedule is needed: gpipe, 1f1b, interleaved, zb-h1 or a file whose name ends in .csv"},
      {"dream", "unknown schedule \"dream\", expected one of gpipe"},
      {"1f1b --chunks 2", "--chunks has no effect on 1f1b"},
      {"zb-h1 --chunks 1", "--chunks has no effect on zb-h1"},
      {right + " --chunks 1", "--chunks has no effect with a file"},
      {"interleaved --chunks 0", "--chunks is 0"},
      {"1f1b --ranks 0", "--ranks is 0"},
      {"1f1b --ranks 2.5", "--ranks is 2.5"},
      {"1f1b --ranks 99999999999", "--ranks is 99999999999"},
      {"1f1b --microbatches -1", "--microbatches is -1"},
      {"gpipe --ranks 100000 --microbatches 1000", "more than the 16,777,216 actions"},
      {"interleaved --ranks 8000000 --microbatches 8000000 --chunks 8000000", "more than the 16,777,216 actions"},
      {"1f1b --forward -1", "--forward is -1, expected 0 to 1e+12"},
      {"1f1b --backward nan", "--backward is nan"},
      {"1f1b --weight inf", "--weight is inf"},
      {"1f1b --transfer -0.5", "--transfer is -0.5"},
      {table("cell.csv", "0F0,0B0\n1F0,,1X0\n"), "cell.csv: rank 1, column 3 (\"1X0\") is not an action"},
      {table("double.csv", "0F0,0B0,0F0\n"),
       "double.csv: rank 0, column 3 (\"0F0\"): column 1 has this action already"},
      {table("missing.csv", "0F0,0F1,0B0\n"), "missing.csv: rank 0 ends at column 3 without \"0B1\""},
      {table("circle.csv", "0B0,0F0\n"), "circle.csv: the actions wait in a circle: rank 0, column 1 (\"0B0\")"},
      {table("empty.csv", ""), "empty.csv: the schedule is empty"},
      {right + " --ranks 3", "right.csv: the schedule has 2 lines, one for each rank, expected 3"},
      {right + " --microbatches 2", "right.csv: the schedule has 1 micro-batch, expected 2"},
      {"/none/my.csv", "/none/my.csv: the file cannot be opened"},
      {shell_quoted(folder.path()) + "/.csv/../.csv", "cannot be opened"},
      {"gpipe --ranks 64 --microbatches 512", "an SVG picture: expected at most 20,000 actions, got 65,536"},
      {"gpipe --csv /none/y.csv", "/none/y.csv"},
      {"gpipe tree", "unexpected tree"},
      {table("cells.csv", ",,\n,,\n"), "cells.csv: the schedule has no action"},
      {"gpipe --csv table", "--csv table: expected a name that ends in .csv"},
      {"gpipe --csv ''", "--csv is empty, expected a file's name"},
  };
  const auto before = test::tree_of(folder.path());
  const std::string one_file = run("pipeline gpipe --csv /none/a.csv --svg /none/a.csv").err;
  EXPECT_EQ(one_file, "adjoin: --svg and --csv name the same file, /none/a.csv\n");
  EXPECT_EQ(run("pipeline gpipe --svg ''").err, "adjoin: --svg is empty, expected a file's name\n");
  for (const auto& [arguments, expected] : cases) {
    const Outcome outcome =
        run("pipeline " + arguments + " --svg " + shell_quoted(folder / "x.svg") +
            (arguments.find("--csv") == std::string::npos ? " --csv " + shell_quoted(folder / "x_out.csv") : ""));
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("adjoin: "), HasSubstr(expected))) << arguments;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
  EXPECT_EQ(test::tree_of(folder.path()), before);
}

}  // namespace
}  // namespace adjoin::cli
