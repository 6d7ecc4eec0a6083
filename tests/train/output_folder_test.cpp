#include "adjoin/train/output_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "adjoin/base/error.hpp"
#include "adjoin/train/output_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using test::message_of;
using test::put;
using test::TemporaryFolder;
using ::testing::HasSubstr;

TEST(OutputFolder, is_created_with_its_parents_and_taken_again_later) {
  const TemporaryFolder folder;
  { const OutputFolder out(folder / "a/b"); }
  put(folder / "a/b/metrics.jsonl", "{}");
  const OutputFolder again(folder / "a/b");
  EXPECT_EQ(contents_of(again / "metrics.jsonl"), "{}");
}

TEST(OutputFolder, may_exist_when_it_is_empty) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "empty");
  EXPECT_NO_THROW(OutputFolder(folder / "empty"));
}

TEST(OutputFolder, is_refused_when_it_holds_the_files_of_others) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "thesis");
  put(folder / "thesis/config.json", "{}");
  EXPECT_THAT(message_of<InvalidArgument>([&] { OutputFolder(folder / "thesis"); }), HasSubstr("not made by adjoin"));
  EXPECT_FALSE(fs::exists(folder / "thesis/.adjoin"));
}

TEST(OutputFolder, is_refused_when_it_or_its_parent_is_a_file) {
  const TemporaryFolder folder;
  put(folder / "file", "");
  EXPECT_THROW(OutputFolder::check(folder / "file"), InvalidArgument);
  EXPECT_THAT(message_of<InvalidArgument>([&] { OutputFolder::check(folder / "file/a/b"); }),
              HasSubstr("/file is not a folder"));
  EXPECT_THROW(OutputFolder::check(""), InvalidArgument);
}

TEST(OutputFolder, is_left_alone_by_a_check) {
  const TemporaryFolder folder;
  OutputFolder::check(folder / "new");
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(OutputFolder, is_refused_while_another_holds_it) {
  const TemporaryFolder folder;
  const OutputFolder first(folder / "out");
  EXPECT_THAT(message_of<InvalidArgument>([&] { OutputFolder(folder / "out"); }), HasSubstr("another process"));
}

TEST(OutputFolder, fails_clearly_where_no_folder_can_be_made) {
  EXPECT_THROW(OutputFolder("/proc/adjoin-test"), IoError);
}

class ReplaceFolder : public testing::Test {
 protected:
  void replace(const std::string& text) {
    replace_folder(parent_.path(), "checkpoint", [&](const fs::path& into) { put(into / "model", text); });
  }
  std::string model() const { return contents_of(parent_ / "checkpoint/model"); }
  void expect_nothing_beside() const {
    EXPECT_FALSE(fs::exists(parent_ / "checkpoint.new"));
    EXPECT_FALSE(fs::exists(parent_ / "checkpoint.old"));
  }
  TemporaryFolder parent_;
};

TEST_F(ReplaceFolder, puts_a_new_folder_in_the_place_of_the_old_one) {
  replace("first");
  EXPECT_EQ(model(), "first");
  replace("second");
  EXPECT_EQ(model(), "second");
  expect_nothing_beside();
}

TEST_F(ReplaceFolder, keeps_the_old_folder_when_filling_fails) {
  replace("first");
  const auto fail = [&](const fs::path& into) {
    put(into / "model", "half");
    throw IoError("full");
  };
  EXPECT_THROW(replace_folder(parent_.path(), "checkpoint", fail), IoError);
  EXPECT_EQ(model(), "first");
  expect_nothing_beside();
}

TEST_F(ReplaceFolder, survives_a_process_that_dies_while_it_fills) {
  replace("first");
  const pid_t child = ::fork();
  if (child == 0)
    replace_folder(parent_.path(), "checkpoint", [](const fs::path& into) {
      put(into / "model", "half");
      ::_exit(0);
    });
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(fs::exists(parent_ / "checkpoint.new"));
  EXPECT_TRUE(recover_folder(parent_.path(), "checkpoint"));
  EXPECT_EQ(model(), "first");
  expect_nothing_beside();
}

TEST_F(ReplaceFolder, is_finished_after_a_crash_between_its_renames) {
  replace("old");
  fs::rename(parent_ / "checkpoint", parent_ / "checkpoint.old");
  fs::create_directory(parent_ / "checkpoint.new");
  put(parent_ / "checkpoint.new/model", "new");
  EXPECT_TRUE(recover_folder(parent_.path(), "checkpoint"));
  EXPECT_EQ(model(), "new");
  expect_nothing_beside();
}

TEST_F(ReplaceFolder, is_finished_after_a_crash_before_the_old_folder_was_removed) {
  replace("new");
  fs::create_directory(parent_ / "checkpoint.old");
  EXPECT_TRUE(recover_folder(parent_.path(), "checkpoint"));
  EXPECT_EQ(model(), "new");
  expect_nothing_beside();
}

TEST_F(ReplaceFolder, forgets_a_first_folder_that_was_never_complete) {
  fs::create_directory(parent_ / "checkpoint.new");
  EXPECT_FALSE(recover_folder(parent_.path(), "checkpoint"));
  expect_nothing_beside();
}

}  // namespace
}  // namespace adjoin::train
