#include "adjoin/store/output_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
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

}  // namespace
}  // namespace adjoin::train
