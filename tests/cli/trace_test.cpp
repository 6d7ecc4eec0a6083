#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.hpp"
#include "tests/support/traces.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

/// Three steps of a model of four segments, of which a trace shows the second and what follows it.
const std::string kTracedRun =
    "train --data sample --samples 48 --preset tiny --vocabulary-size 200 --layers 2 --hidden 16 --heads 2 --sequence "
    "24 "
    "--batch 8 --threads-per-rank 1 --steps 3 --eval-every 2 --checkpoint-every 2 --trace 2 ";

json trace_of(const fs::path& run) {
  return read_trace(run / "trace.json.gz");
}

/// The names of the slices of a rank's work.
std::set<std::string> work_of(const json& trace, int rank) {
  std::set<std::string> names;
  for (const json& event : events_of(trace, "X"))
    if (event.at("pid") == rank && event.at("cat") == "work") names.insert(event.at("name"));
  return names;
}

/// Trains by kTracedRun, and expects a sound trace of it, with what each rank does in any layout.
json traced(const std::string& layout, int ranks, const Surroundings& where = {}) {
  const TemporaryFolder folder;
  const Outcome outcome = run(kTracedRun + layout + into(folder / "run"), where);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  json trace = trace_of(folder / "run");
  expect_sound_trace(trace, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::set<std::string> work = work_of(trace, rank);
    EXPECT_THAT(work, IsSupersetOf({"step 2", "data", "data 0", "F 0", "optimizer", "evaluation", "checkpoint"}));
    EXPECT_FALSE(work.contains("step 1") || work.contains("step 3"));
  }
  return trace;
}

std::vector<std::string> names_of_ranks(const json& trace) {
  std::vector<std::string> names;
  for (const json& event : events_of(trace, "M", "process_name")) names.push_back(event.at("args").at("name"));
  return names;
}

TEST(TraceOption, shows_forward_and_backward_of_each_segment_in_each_layout) {
  const std::vector<std::string> segments = {"embedding", "block0", "block1", "head"};
  for (const char* layout : {"--tp 2", "--dp 2 --recompute segment", "--cp 2", "--dp 2 --zero 3"}) {
    SCOPED_TRACE(layout);
    const json trace = traced(layout, 2);
    for (const int rank : {0, 1})
      for (const std::string& segment : segments)
        EXPECT_THAT(work_of(trace, rank),
                    IsSupersetOf({std::string("B 0"), "forward " + segment, "backward " + segment}));
    const std::string option = std::string(layout).substr(2, 2);
    EXPECT_EQ(names_of_ranks(trace)[1], "rank 1: " + (option == "dp" ? "replica" : option) + " 1");
    EXPECT_EQ(work_of(trace, 0).contains("recompute"), std::string(layout).find("recompute") != std::string::npos);
    EXPECT_EQ(events_of(trace, "s").empty(), std::string(layout) != "--cp 2");  // a ring
  }
}

TEST(TraceOption, shows_the_actions_of_a_pipeline_and_its_messages) {
  const json trace = traced("--pp 2 --microbatches 3 --pipeline zb-h1", 2);
  EXPECT_THAT(work_of(trace, 0), IsSupersetOf({"F 2", "I 2", "W 2", "forward embedding", "backward embedding"}));
  EXPECT_FALSE(work_of(trace, 1).contains("forward embedding"));
  EXPECT_TRUE(work_of(trace, 1).contains("backward head"));
  for (const json& event : events_of(trace, "X", "I 1")) EXPECT_EQ(event.at("args").at("stage"), event.at("pid"));
  std::map<std::pair<int, int>, int> messages;  // in the step, by sender and receiver
  const auto [begin, end] = times_of(events_of(trace, "X", "step 2")[0]);
  for (const json& sent : events_of(trace, "s"))
    for (const json& received : events_of(trace, "f"))
      if (sent.at("id") == received.at("id") && 1000 * sent.at("ts").get<double>() < static_cast<double>(end))
        ++messages[{sent.at("pid"), received.at("pid")}];
  EXPECT_EQ(messages, (std::map<std::pair<int, int>, int>{{{0, 1}, 3}, {{1, 0}, 3}}));
}

TEST(TraceOption, shows_processes_on_two_groups) {
  const json trace = traced("--pp 2 --tp 2 --microbatches 2", 4, {.ranks = 4});
  EXPECT_EQ(names_of_ranks(trace), (std::vector<std::string>{"rank 0: pp 0, tp 0", "rank 1: pp 0, tp 1",
                                                             "rank 2: pp 1, tp 0", "rank 3: pp 1, tp 1"}));
  std::set<std::string> groups;
  for (const json& event : events_of(trace, "X", "all_reduce")) groups.insert(event.at("args").at("group"));
  EXPECT_THAT(groups, IsSupersetOf({"ranks 0, 1", "ranks 2, 3", "ranks 0-3"}));
}

/// Expects one line on standard error, the exit code 2, and that `folder` is as it was.
void expect_refused_trace(const std::string& arguments, const std::string& message, const fs::path& folder) {
  const auto before = tree_of(folder);
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(message));
  EXPECT_EQ(tree_of(folder), before);
}

TEST(TraceOption, is_of_steps_that_the_run_takes) {
  const TemporaryFolder folder;
  const std::string train = kSmallRun + "--steps 6" + into(folder / "run") + " --trace ";
  for (const char* steps : {"5-3", "0", "0-2", "3-", "3-4-5", "3,5", "x", "1e1", "99999999999999999999"})
    expect_refused_trace(train + steps, "--trace is \"" + std::string(steps) + "\", expected a step, as 3, or",
                         folder.path());
  expect_refused_trace(train + "3-7", "--trace 3-7: the run has 6 steps", folder.path());
  expect_refused_trace("train --data sample --dry-run --steps 6 --trace 7", "--trace 7: the run has 6 steps",
                       folder.path());
}

TEST(TraceOption, is_not_that_of_the_run_that_a_resumed_one_goes_on_with) {
  const TemporaryFolder folder;
  const std::string train = kSmallRun + into(folder / "run"), resume = "train --resume " + shell_quoted(folder / "run");
  ASSERT_EQ(run(train + " --steps 3 --trace 3").code, 0);
  const std::string before = contents_of(folder / "run" / "trace.json.gz");
  expect_refused_trace(resume + " --steps 5 --trace 3-4", "--trace 3-4: the run goes on after step 3", folder.path());
  const Outcome resumed = run(resume + " --steps 4");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(contents_of(folder / "run" / "trace.json.gz"), before);
  const Outcome again = run(train + " --steps 5 --trace 3 --resume auto");  // as a job does that is started again
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(contents_of(folder / "run" / "trace.json.gz"), before);

  ASSERT_EQ(run(train + " --steps 1 --overwrite").code, 0);
  EXPECT_FALSE(fs::exists(folder / "run" / "trace.json.gz"));
}

TEST(TraceOption, is_given_up_with_a_warning_where_the_disk_is_full) {
  const TemporaryFolder folder;
  ASSERT_EQ(run(kSmallRun + "--steps 1" + into(folder / "run")).code, 0);
  fs::create_symlink("/dev/full", folder / "run" / "trace.json.gz");
  const Outcome outcome = run("train --steps 3 --trace 2 --resume " + shell_quoted(folder / "run"));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("adjoin: warning: there is no trace: "));
  EXPECT_THAT(outcome.err, HasSubstr("trace.json.gz: cannot be written: No space left on device"));
  EXPECT_EQ(json::parse(lines_of(contents_of(metrics_of(folder / "run"))).back()).at("step"), 3);
}

}  // namespace
}  // namespace adjoin::cli
