#include "adjoin/store/checkpoint_folders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "adjoin/store/output_file.hpp"
#include "paths.hpp"
#include "tests/support/file_faults.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using test::put;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class CheckpointFolders : public ::testing::Test {
 protected:
  bool save(int64_t step, const std::string& text, int64_t keep = 2) {
    begin_checkpoint(run_.path(), step);
    put(fresh_checkpoint(run_.path(), step) / "model", text);
    put(fresh_checkpoint(run_.path(), step) / kStateFile, "{}");
    return publish_checkpoint(run_.path(), step, keep);
  }
  void make(const std::string& name, const std::string& text, const std::string& state) {
    fs::create_directories(run_ / name);
    put(run_ / name / "model", text);
    if (!state.empty()) put(run_ / name / kStateFile, state);
  }
  /// What each has, the newest first.
  std::vector<std::string> found() const {
    std::vector<std::string> models;
    for (const CheckpointFolder& checkpoint : checkpoints_in(run_.path()))
      models.push_back(std::to_string(checkpoint.step) + " " + contents_of(checkpoint.path / "model"));
    return models;
  }
  std::vector<std::string> names() const { return names_in(run_ / "checkpoints"); }
  TemporaryFolder run_;
};

TEST_F(CheckpointFolders, stay_as_many_as_are_to_be_kept) {
  EXPECT_THAT(found(), IsEmpty());
  for (const int64_t step : {2, 9, 10, 100}) EXPECT_TRUE(save(step, "a"));
  EXPECT_THAT(found(), ElementsAre("100 a", "10 a"));
  EXPECT_THAT(names(), ElementsAre("step-10", "step-100"));
  save(101, "a", /*keep=*/5);
  EXPECT_THAT(found(), ElementsAre("101 a", "100 a", "10 a"));
  save(102, "a", /*keep=*/1);
  EXPECT_THAT(names(), ElementsAre("step-102"));
}

TEST_F(CheckpointFolders, of_a_step_that_was_saved_is_replaced) {
  save(3, "first");
  save(3, "second");
  EXPECT_THAT(found(), ElementsAre("3 second"));
  EXPECT_THAT(names(), ElementsAre("step-3"));
}

TEST_F(CheckpointFolders, are_whole_where_they_have_their_last_file_and_are_finished_or_undone) {
  save(1, "a");
  make("checkpoints/step-2.old", "half removed", "{}");
  make("checkpoints/step-3.new", "half filled", "");
  make("checkpoints/step-4.new", "whole", "{}");
  make("checkpoints/step-1.new", "again", "{}");  // and was about to be replaced
  make("checkpoints/step-5x", "nobody's", "{}");
  EXPECT_THAT(found(), ElementsAre("4 whole", "1 again", "1 a"));
  recover_checkpoints(run_.path());
  EXPECT_THAT(found(), ElementsAre("4 whole", "1 again"));
  EXPECT_THAT(names(), ElementsAre("step-1", "step-4", "step-5x"));
}

TEST_F(CheckpointFolders, of_later_steps_are_removed_where_a_run_goes_on_from_an_earlier_one) {
  for (const int64_t step : {1, 2, 3}) save(step, "a", /*keep=*/9);
  remove_checkpoints_after(run_.path(), 2);
  EXPECT_THAT(found(), ElementsAre("2 a", "1 a"));
  make("checkpoint", "earlier version", R"({"step": 1})");
  remove_checkpoints_after(run_.path(), -1);
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_THAT(names_in(run_.path()), IsEmpty());
}

TEST_F(CheckpointFolders, of_an_earlier_version_count_as_the_oldest) {
  make("checkpoint", "old", R"({"step": 4})");
  EXPECT_THAT(found(), ElementsAre("4 old"));
  make("checkpoint.next", "newer", R"({"step": 5})");  // a crash left it
  make("checkpoint.new", "half", "");
  EXPECT_THAT(found(), ElementsAre("5 newer"));
  recover_checkpoints(run_.path());
  EXPECT_THAT(found(), ElementsAre("5 newer"));
  EXPECT_THAT(names_in(run_.path()), ElementsAre("checkpoint"));
  save(6, "a");
  EXPECT_THAT(found(), ElementsAre("6 a", "5 newer"));
  save(7, "a");
  EXPECT_THAT(found(), ElementsAre("7 a", "6 a"));
  EXPECT_THAT(names_in(run_.path()), ElementsAre("checkpoints"));
}

/// Runs tests/support/checkpoint_program.cpp, which saves checkpoints of so many steps, with faults.
class KilledSaves : public ::testing::Test {
 protected:
  /// Its exit code, or 128 and the signal that ended it.
  int save(int first, int last, const std::vector<std::string>& faults = {}) const {
    const pid_t child = ::fork();
    if (child == 0) {
      for (const std::string& variable : test::with_file_faults(out(), faults))
        ::setenv(variable.substr(0, variable.find('=')).c_str(), variable.substr(variable.find('=') + 1).c_str(), 1);
      ::execl(ADJOIN_CHECKPOINT_PROGRAM, "checkpoint_program", out().c_str(), std::to_string(first).c_str(),
              std::to_string(last).c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// The steps of the checkpoints there are, each of which is what it was when it was written.
  std::vector<int64_t> whole() const {
    std::vector<int64_t> steps;
    for (const CheckpointFolder& checkpoint : checkpoints_in(out())) {
      const std::string step = std::to_string(checkpoint.step);
      EXPECT_THAT(names_in(checkpoint.path), ElementsAre("model", kStateFile));
      EXPECT_EQ(contents_of(checkpoint.path / "model"), step);
      EXPECT_EQ(contents_of(checkpoint.path / kStateFile), "{\"step\": " + step + "}");
      if (steps.empty() || steps.back() != checkpoint.step) steps.push_back(checkpoint.step);  // or it is replaced
    }
    return steps;
  }

  fs::path out() const { return folder_ / "out"; }
  fs::path log() const { return folder_ / "log"; }
  TemporaryFolder folder_;
};

TEST_F(KilledSaves, cost_no_more_than_the_one_that_is_not_finished_before_each_operation) {
  int64_t last = 0;
  int n = 1;
  for (;; ++n) {
    SCOPED_TRACE("killed before operation " + std::to_string(n));
    fs::remove_all(out());
    const int code = save(1, 4, {"KILL=" + std::to_string(n)});
    if (code == 0) break;
    ASSERT_EQ(code, 128 + SIGKILL);
    if (!fs::exists(out() / ".adjoin")) continue;  // nothing is there yet
    const std::vector<int64_t> found = whole();
    const int64_t newest = found.empty() ? 0 : found.front();
    EXPECT_GE(newest, last);
    last = newest;
    if (newest > 1) {
      ASSERT_GE(found.size(), 2u);
      EXPECT_EQ(found[1], newest - 1);
    }
    recover_checkpoints(out());
    EXPECT_EQ(whole(), found);
    if (!fs::exists(out() / "checkpoints")) continue;
    for (const std::string& name : names_in(out() / "checkpoints")) EXPECT_EQ(name.find('.'), name.npos) << name;
  }
  EXPECT_EQ(last, 4);
  EXPECT_GT(n, 5 * 2 * 5);  // a file is opened, written, synchronised, renamed, and its folder synchronised
}

TEST_F(KilledSaves, are_finished_by_a_next_one_that_is_killed_too) {
  for (int n = 1;; ++n) {
    fs::remove_all(out());
    ASSERT_EQ(save(1, 2), 0);
    if (save(3, 3, {"KILL=" + std::to_string(n)}) == 0) break;
    const std::vector<int64_t> found = whole();
    for (int m = 1; m <= 14; m += 2) {  // through what the next one does before it writes
      SCOPED_TRACE("killed before operation " + std::to_string(n) + ", then " + std::to_string(m));
      ASSERT_EQ(save(4, 4, {"KILL=" + std::to_string(m)}), 128 + SIGKILL);
      ASSERT_EQ(whole(), found);
    }
  }
}

TEST_F(KilledSaves, have_each_file_and_folder_on_the_disk_before_the_rename_that_publishes_it) {
  ASSERT_EQ(save(1, 4, {"LOG=" + log().string()}), 0);
  const test::FileOrder order(contents_of(log()));
  EXPECT_THAT(order.violations, IsEmpty());
  EXPECT_EQ(order.counts.at("rename"),
            5 * 2 + 3);  // a file and its folder each; two that are too old, one that is replaced
  EXPECT_GE(order.counts.at("sync"), 5 * 5);
}

TEST_F(KilledSaves, go_on_where_old_folders_cannot_be_removed) {
  ASSERT_EQ(save(1, 4, {"KEEP=.old"}), 0);
  EXPECT_THAT(whole(), ElementsAre(4, 3));
  EXPECT_THAT(names_in(out() / "checkpoints"),
              ElementsAre("step-1.old", "step-2.old", "step-3", "step-4", "step-4.old"));
  ASSERT_EQ(save(5, 5), 0);  // once they can
  EXPECT_THAT(names_in(out() / "checkpoints"), UnorderedElementsAre("step-4", "step-5"));
}

}  // namespace
}  // namespace adjoin::train
