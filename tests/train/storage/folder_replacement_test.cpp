#include "adjoin/train/storage/folder_replacement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "adjoin/train/storage/output_file.hpp"
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

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class Replacement : public ::testing::Test {
 protected:
  bool replace(const std::string& text) {
    FolderReplacement fresh(parent_.path(), "checkpoint");
    put(fresh.folder() / "model", text);
    return fresh.publish();
  }
  void make(const std::string& name, const std::string& text) {
    fs::create_directory(parent_ / name);
    put(parent_ / name / "model", text);
  }
  bool recover() { return recover_folder(parent_.path(), "checkpoint"); }
  std::string found() const { return contents_of(*find_folder(parent_.path(), "checkpoint") / "model"); }
  std::string model() const { return contents_of(parent_ / "checkpoint/model"); }
  void expect_nothing_beside() const { EXPECT_THAT(names_in(parent_.path()), ElementsAre("checkpoint")); }
  TemporaryFolder parent_;
};

TEST_F(Replacement, puts_a_new_folder_in_the_place_of_the_old_one) {
  EXPECT_TRUE(replace("first"));
  EXPECT_EQ(model(), "first");
  EXPECT_TRUE(replace("second"));
  EXPECT_EQ(model(), "second");
  expect_nothing_beside();
}

TEST_F(Replacement, that_is_not_published_leaves_the_old_folder) {
  replace("first");
  {
    const FolderReplacement fresh(parent_.path(), "checkpoint");
    put(fresh.folder() / "model", "half");
    EXPECT_EQ(found(), "first");
  }
  EXPECT_EQ(model(), "first");
  expect_nothing_beside();
}

TEST_F(Replacement, is_finished_after_a_crash_between_its_renames) {
  make("checkpoint.old", "old");
  make("checkpoint.next", "new");
  EXPECT_EQ(found(), "new");
  EXPECT_TRUE(recover());
  EXPECT_EQ(model(), "new");
  expect_nothing_beside();
}

TEST_F(Replacement, is_finished_after_a_crash_before_its_renames) {
  make("checkpoint", "old");
  make("checkpoint.next", "new");
  EXPECT_EQ(found(), "new");
  EXPECT_TRUE(recover());
  EXPECT_EQ(model(), "new");
  expect_nothing_beside();
}

TEST_F(Replacement, takes_nothing_for_whole_that_was_torn_or_replaced) {
  make("checkpoint.new", "half");
  make("checkpoint.old", "of a run before");
  EXPECT_EQ(find_folder(parent_.path(), "checkpoint"), std::nullopt);
  EXPECT_FALSE(recover());
  EXPECT_THAT(names_in(parent_.path()), IsEmpty());
}

/// Runs tests/support/checkpoint_program.cpp, which replaces the folder by so many generations, with faults.
class KilledReplacement : public ::testing::Test {
 protected:
  /// Its exit code, or 128 and the signal that ended it.
  int replace(int first, int last, const std::vector<std::string>& faults = {}) const {
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

  /// The generation of a whole checkpoint; 0 where there is none.
  static int generation_in(const std::optional<fs::path>& checkpoint) {
    if (!checkpoint) return 0;
    EXPECT_THAT(names_in(*checkpoint), ElementsAre("model", "state"));
    EXPECT_EQ(contents_of(*checkpoint / "model"), contents_of(*checkpoint / "state"));
    return std::stoi(contents_of(*checkpoint / "model"));
  }

  fs::path out() const { return folder_ / "out"; }
  fs::path log() const { return folder_ / "log"; }
  TemporaryFolder folder_;
};

TEST_F(KilledReplacement, leaves_a_whole_folder_before_each_operation) {
  int last_found = 0, n = 1;
  for (;; ++n) {
    SCOPED_TRACE("killed before operation " + std::to_string(n));
    fs::remove_all(out());
    const int code = replace(1, 3, {"KILL=" + std::to_string(n)});
    if (code == 0) break;
    ASSERT_EQ(code, 128 + SIGKILL);
    if (!fs::exists(out() / ".adjoin")) continue;  // nothing is there yet
    const int found = generation_in(find_folder(out(), "checkpoint"));
    EXPECT_GE(found, last_found);
    last_found = found;
    ASSERT_EQ(recover_folder(out(), "checkpoint"), found > 0);
    EXPECT_EQ(generation_in(found > 0 ? std::optional(out() / "checkpoint") : std::nullopt), found);
    for (const std::string& name : names_in(out())) EXPECT_TRUE(name == "checkpoint" || name == ".adjoin") << name;
  }
  EXPECT_EQ(last_found, 3);  // whose replaced folder the last kills left
  EXPECT_GT(n, 3 * 2 * 5);   // a file is opened, written, synchronised, renamed, and its folder synchronised
}

TEST_F(KilledReplacement, is_finished_by_a_next_one_that_is_killed_too) {
  for (int n = 1;; ++n) {
    fs::remove_all(out());
    ASSERT_EQ(replace(1, 1), 0);
    if (replace(2, 2, {"KILL=" + std::to_string(n)}) == 0) break;
    const int found = generation_in(find_folder(out(), "checkpoint"));
    for (int m = 1; m <= 14; m += 2) {  // through what the next one does before it writes
      SCOPED_TRACE("killed before operation " + std::to_string(n) + ", then " + std::to_string(m));
      ASSERT_EQ(replace(3, 3, {"KILL=" + std::to_string(m)}), 128 + SIGKILL);
      ASSERT_EQ(generation_in(find_folder(out(), "checkpoint")), found);
    }
  }
}

TEST_F(KilledReplacement, has_each_file_and_folder_on_the_disk_before_the_rename_that_publishes_it) {
  ASSERT_EQ(replace(1, 3, {"LOG=" + log().string()}), 0);
  const test::FileOrder order(contents_of(log()));
  EXPECT_THAT(order.violations, IsEmpty());
  EXPECT_EQ(order.counts.at("rename"), 3 * (2 + 2) + 2);  // two files and the folder's two names; two old ones aside
  EXPECT_GE(order.counts.at("sync"), 3 * (2 + 2 + 3));
}

TEST_F(KilledReplacement, goes_on_where_the_old_folder_cannot_be_removed) {
  ASSERT_EQ(replace(1, 4, {"KEEP=checkpoint.old"}), 0);
  EXPECT_EQ(generation_in(out() / "checkpoint"), 4);
  EXPECT_THAT(names_in(out()),
              ElementsAre(".adjoin", "checkpoint", "checkpoint.old", "checkpoint.old.1", "checkpoint.old.2"));
  ASSERT_EQ(replace(5, 5), 0);  // once it can
  EXPECT_EQ(generation_in(out() / "checkpoint"), 5);
  EXPECT_THAT(names_in(out()), ElementsAre(".adjoin", "checkpoint"));
}

}  // namespace
}  // namespace adjoin::train
