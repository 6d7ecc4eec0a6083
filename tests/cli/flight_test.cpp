#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::string flight_of(const fs::path& run) {
  return "flight " + shell_quoted(run);
}

/// What the command prints, in 80 columns but for the line that begins with the path of the run, which may be long.
std::string shown(const std::string& arguments) {
  const Outcome outcome = run_well(arguments);
  for (const std::string& line : lines_of(outcome.out)) {
    if (!line.starts_with("/")) {
      EXPECT_LE(line.size(), 80u) << line;
    }
  }
  return outcome.out;
}

TEST(FlightCommand, shows_the_last_calls_of_a_run_that_was_killed) {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  {
    const Running training(kSmallRun + "--epochs 1000 --dp 2" + into(out));
    wait_for_steps(out, 3);
    EXPECT_EQ(printed_json(flight_of(out)).at("outcome"), "goes on");
    training.signal(SIGKILL);
  }
  const std::string text = shown(flight_of(out) + " --last 3");
  EXPECT_THAT(text, AllOf(HasSubstr("run: 2 ranks, last call at 2"), HasSubstr("it did not record why it ended"),
                          HasSubstr("\nrank 0 (process "), HasSubstr("): is gone, the last 3 of "),
                          HasSubstr("\n       ago      took  call\n")));
  const json result = printed_json(flight_of(out) + " --last 200");
  EXPECT_EQ(result.at("outcome"), "killed");
  EXPECT_EQ(result.at("failure"), nullptr);
  ASSERT_EQ(result.at("records").size(), 2u);
  for (const json& record : result.at("records")) {
    const json& calls = record.at("calls");
    EXPECT_EQ(calls.size(), std::min<size_t>(200, record.at("calls_made").get<size_t>()));
    for (size_t i = 1; i < calls.size(); ++i) EXPECT_EQ(calls[i].at("place"), calls[i - 1].at("place").get<int>() + 1);
    EXPECT_LE(calls.back().at("begin"), result.at("last_event"));
  }
}

TEST(FlightCommand, tells_which_rank_of_an_mpi_job_was_killed_before_what_others_wait_in) {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  Running training(kSmallRun + "--epochs 1000 --dp 2" + into(out), {.ranks = 2});
  wait_for_steps(out, 3);
  json before = printed_json(flight_of(out));
  const auto rank_1 = before.at("records").at(1).at("process").get<pid_t>();
  wait_until("rank 1 has been stopped between two calls, and rank 0 waits", [&] {
    ::kill(rank_1, SIGSTOP);
    before = printed_json(flight_of(out));
    const auto last_state = [&](size_t rank) { return before.at("records").at(rank).at("calls").back().at("state"); };
    if (last_state(0) == "pending" && last_state(1) == "ended") return true;
    ::kill(rank_1, SIGCONT);
    return false;
  });
  ::kill(rank_1, SIGKILL);
  EXPECT_NE(training.wait().code, 0);
  const json result = printed_json(flight_of(out));
  EXPECT_EQ(result.at("outcome"), "killed");
  EXPECT_GE(result.at("last_event"), before.at("last_event"));
  const auto waits_for_rank_1 = [](const json& difference) {
    return difference.at("kind") == "missing" && difference.at("absent") == json{1};
  };
  EXPECT_TRUE(std::ranges::any_of(result.at("differences"), waits_for_rank_1)) << result;
}

TEST(FlightCommand, tells_of_a_run_that_ended_well_and_replaces_it_in_the_next_start) {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  ASSERT_EQ(run(kSmallRun + "--epochs 1 --dp 3" + into(out)).code, 0);
  EXPECT_THAT(shown(flight_of(out)), AllOf(HasSubstr("it ended without a failure\n\nrank 0"), HasSubstr("rank 2")));
  ASSERT_EQ(run("train --epochs 2 --dp 1 --resume " + shell_quoted(out)).code, 0);
  const json result = printed_json(flight_of(out));
  EXPECT_EQ(result.at("ranks"), 1);
  EXPECT_EQ(result.at("outcome"), "ended");
  EXPECT_EQ(result.at("differences"), json::array());
}

TEST(FlightCommand, finds_nothing_of_a_run_on_a_full_disk_which_goes_on_with_one_warning) {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const std::string smaller_than_a_record =
      "train --data sample --samples 48 --preset tiny --vocabulary-size 300 --layers 1 --hidden 8 --heads 2 --sequence "
      "32"
      " --batch 8 --threads-per-rank 1 --epochs 1 --dp 2";
  const Outcome outcome = run(smaller_than_a_record + into(out), {.limits = "ulimit -f 45;"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank-0.bin: cannot be written: File too large; the run goes on without the "
                                           "flight record of ranks 0, 1\n"),
                                 Not(HasSubstr("rank-1.bin"))));
  EXPECT_FALSE(fs::exists(out / "flight"));
  EXPECT_THAT(run(flight_of(out)).err, HasSubstr("there is no flight record in it"));
}

TEST(FlightCommand, shows_what_is_whole_beside_what_is_damaged_and_exits_with_2) {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  ASSERT_EQ(run(kSmallRun + "--epochs 1 --dp 2" + into(out)).code, 0);
  fs::resize_file(out / "flight" / "rank-1.bin", 5000);
  const Outcome outcome = run(flight_of(out));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, MatchesRegex("adjoin: .*rank-1.bin: is truncated: it has 5,000 of [0-9,]+ bytes\n"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\nrank 0 (process"), HasSubstr("\nrank 1: no record\n")));
}

TEST(FlightCommand, refuses_what_is_no_recorded_run) {
  const TemporaryFolder folder;
  put(folder / "notes.txt", "mine");
  const auto refuses = [&](const std::string& arguments, const std::string& expected) {
    const Outcome outcome = run("flight " + arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("adjoin: "), HasSubstr(expected)));
  };
  refuses("", "RUN is needed");
  refuses(shell_quoted(folder / "none"), "none: there is no such folder");
  refuses(shell_quoted(folder / "notes.txt"), "notes.txt: is not a folder");
  refuses(shell_quoted(folder.path()),
          ": there is no flight record in it; expected the output folder of a training run");
  refuses(shell_quoted(folder.path()) + " --last 0", "--last");
  refuses(shell_quoted(folder.path()) + " --last 201", "--last");
  refuses(shell_quoted(folder.path()) + " --last x", "--last");
}

}  // namespace
}  // namespace adjoin::cli
