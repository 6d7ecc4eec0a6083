#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.hpp"

namespace adjoin::cli {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect_refusal(const std::string& arguments, const std::string& expected) {
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(expected));
}

/// Two trainings of some steps, one of which was ended early.
class Reports : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    ASSERT_EQ(run(kSmallRun + "--dp 2 --steps 8 --eval-every 3 --tensorboard" + into(*folder_ / "a")).code, 0);
    fs::copy(*folder_ / "a", *folder_ / "ended", fs::copy_options::recursive);
    fs::remove(*folder_ / "ended" / "summary.json");
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string runs(const std::string& name) { return " " + shell_quoted(*folder_ / name); }
  static fs::path page() { return *folder_ / "page.html"; }

  inline static TemporaryFolder* folder_ = nullptr;
};

TEST_F(Reports, of_a_finished_run_and_one_that_was_ended_are_one_page) {
  const Outcome outcome = run_well("report" + runs("a") + runs("ended") + into(page()));
  EXPECT_THAT(outcome.out, HasSubstr("/ended: not finished: step 8 of 8\n"));
  EXPECT_THAT(outcome.out, HasSubstr("report of 2 runs in " + page().string() + "\n"));
  const std::string text = contents_of(page());
  for (const char* part : {"Results", "Curves", "Memory of each rank", "Layout", "Configuration", "Machine"})
    EXPECT_THAT(text, HasSubstr("<h2>" + std::string(part) + "</h2>"));
  EXPECT_THAT(text, HasSubstr("planned for a step"));
}

TEST_F(Reports, replace_an_earlier_one_and_nothing_else) {
  const fs::path own = *folder_ / "own.html";
  run_well("report" + runs("a") + into(own));
  run_well("report" + runs("a") + into(own));
  put(own, "<!doctype html>\n<p>mine");
  expect_refusal("report" + runs("a") + into(own), own.string() + ": exists and is not a report of adjoin");
  EXPECT_EQ(contents_of(own), "<!doctype html>\n<p>mine");
}

TEST_F(Reports, refuse_bad_input_in_one_line) {
  fs::create_directories(*folder_ / "empty");
  expect_refusal("report", "RUN is needed");
  expect_refusal("report" + runs("none") + into(page()), "/none: there is no such folder");
  expect_refusal("report" + runs("empty") + into(page()), "is not an output folder of adjoin train: it is empty");
  expect_refusal("report" + runs("a") + runs("a") + into(page()), "is given twice");
  expect_refusal("report" + runs("a") + into(*folder_ / "empty"), "/empty: is a folder, expected a file's name");
  expect_refusal("report" + runs("a") + into(*folder_ / "none" / "page.html"), "/none/page.html");
  expect_refusal("report" + runs("a") + " --out ''", "--out is empty");
  EXPECT_FALSE(fs::exists(*folder_ / "none"));
}

TEST_F(Reports, of_a_run_are_followed_to_its_end_by_watch) {
  EXPECT_THAT(run_well("watch" + runs("a")).out, HasSubstr("\nfinished  test loss "));
  const Outcome ended = run("watch" + runs("ended"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err,
              HasSubstr("the run has ended at step 8 without a result; continue with: adjoin train --resume "));
  expect_refusal("watch " + shell_quoted(*folder_ / "a" / "tensorboard"),
                 "/tensorboard: is not an output folder of adjoin train");
  expect_refusal("watch", "RUN is needed");
}

TEST_F(Reports, are_followed_until_an_interrupt_which_says_nothing) {
  fs::create_directories(*folder_ / "later");
  put(*folder_ / "later" / ".adjoin", "");
  const std::string out = (*folder_ / "said").string();
  Running watch("watch" + runs("later"), {.output = out});
  wait_until("the watch waits", [&] { return fs::exists(out) && !contents_of(out).empty(); });
  watch.signal(SIGINT);
  const Outcome outcome = watch.wait();
  EXPECT_EQ(outcome.code, 128 + SIGINT);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Reports, find_the_events_of_tensorboard_beside_the_metrics) {
  EXPECT_EQ(std::distance(fs::directory_iterator(*folder_ / "a" / "tensorboard"), {}), 1);
  EXPECT_THAT(contents_of(fs::directory_iterator(*folder_ / "a" / "tensorboard")->path()), HasSubstr("test/accuracy"));
}

}  // namespace
}  // namespace adjoin::cli
