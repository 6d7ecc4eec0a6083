#include "adjoin/store/output_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <stdexcept>
#include <thread>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::contents_of;
using test::message_of;
using test::put;
using test::TemporaryFolder;
using ::testing::HasSubstr;

/// Files of this process cannot grow beyond `bytes` while this lives: a full disk that needs no disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(WriteAtomically, replaces_a_file_with_what_the_writer_wrote) {
  const TemporaryFolder folder;
  put(folder / "a", "old");
  write_atomically(folder / "a", [](OutputFile& file) {
    file.write("new ");
    file.write("text");
  });
  EXPECT_EQ(contents_of(folder / "a"), "new text");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.adjoin-new"));
}

TEST(WriteAtomically, leaves_the_old_file_and_nothing_beside_it_when_the_writer_throws) {
  const TemporaryFolder folder;
  put(folder / "a", "old");
  EXPECT_THROW(write_atomically(folder / "a",
                                [](OutputFile& file) {
                                  file.write("half");
                                  throw std::runtime_error("stop");
                                }),
               std::runtime_error);
  EXPECT_EQ(contents_of(folder / "a"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.adjoin-new"));
}

TEST(WriteAtomically, leaves_the_old_file_and_nothing_beside_it_when_the_disk_is_full) {
  const TemporaryFolder folder;
  put(folder / "a", "old");
  {
    const SmallDisk disk(1000);
    EXPECT_THAT(message_of<IoError>([&] { write_atomically(folder / "a", std::string(2000, 'x')); }),
                HasSubstr("/a: cannot be written: File too large"));
  }
  EXPECT_EQ(contents_of(folder / "a"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.adjoin-new"));
}

TEST(WriteAtomically, writes_through_links_and_into_what_is_no_file) {
  const TemporaryFolder folder;
  const auto target = folder / "target", link = folder / "link", pipe = folder / "pipe";
  write_atomically(target, "before");
  std::filesystem::create_symlink("target", link);
  write_atomically(link, "after");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(contents_of(target), "after");

  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  {
    const std::jthread reader([&] { read = contents_of(pipe); });
    write_atomically(pipe, "through");
  }
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_THROW(write_atomically("/dev/full", "x"), IoError);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(WriteAtomically, names_a_folder_that_is_not_there) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<IoError>([&] { write_atomically(folder / "none/a", "text"); }),
              HasSubstr("/none/a: cannot be opened for writing: No such file or directory"));
}

TEST(OutputFile, says_that_the_disk_is_full) {
  EXPECT_THAT(message_of<IoError>([] { OutputFile("/dev/full").write("text"); }),
              HasSubstr("/dev/full: cannot be written: No space left on device"));
}

TEST(OutputFile, appends_all_of_a_line_or_nothing) {
  const TemporaryFolder folder;
  put(folder / "a", "first\n");
  {
    OutputFile file(folder / "a", OutputFile::Mode::append);
    const SmallDisk disk(16);
    file.write("second\n");
    EXPECT_THROW(file.write("third\n"), IoError);
  }
  EXPECT_EQ(contents_of(folder / "a"), "first\nsecond\n");
}

}  // namespace
}  // namespace adjoin::train
