#include "adjoin/cli/line_reader.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "adjoin/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) throw std::runtime_error("cannot make a pipe");
  }
  ~Pipe() { ::close(ends_[0]), end(); }
  int reading() const { return ends_[0]; }
  void write(const std::string& text) const {
    ASSERT_EQ(::write(ends_[1], text.data(), text.size()), std::ssize(text));
  }
  void end() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2];
};

TEST(LineReader, gives_what_has_come_without_waiting_for_more) {
  Pipe pipe;
  LineReader lines(pipe.reading());
  pipe.write("one\n\nthree\nfo");
  EXPECT_THAT(lines.next(64), ElementsAre("one", "", "three"));
  pipe.write("ur\n");
  EXPECT_THAT(lines.next(64), ElementsAre("four"));
  pipe.write("last");
  pipe.end();
  EXPECT_THAT(lines.next(64), ElementsAre("last"));
  EXPECT_THAT(lines.next(64), IsEmpty());
}

TEST(LineReader, gives_no_more_than_asked_for) {
  Pipe pipe;
  LineReader lines(pipe.reading());
  pipe.write("a\nb\nc\n");
  pipe.end();
  EXPECT_THAT(lines.next(2), ElementsAre("a", "b"));
  EXPECT_THAT(lines.next(2), ElementsAre("c"));
  EXPECT_THAT(lines.next(2), IsEmpty());
}

TEST(LineReader, reads_lines_of_any_length) {
  Pipe pipe;
  const std::string text(3'000'000, 'x');
  std::jthread writer([&] {
    pipe.write(text + "\n" + text);
    pipe.end();
  });
  LineReader lines(pipe.reading());
  EXPECT_TRUE(lines.next(1) == std::vector{text});
  EXPECT_TRUE(lines.next(1) == std::vector{text});
}

TEST(LineReader, says_why_it_cannot_read) {
  const int folder = ::open("/", O_RDONLY | O_CLOEXEC);
  LineReader lines(folder);
  EXPECT_EQ(test::message_of<IoError>([&] { lines.next(1); }), "standard input: cannot be read: Is a directory");
  ::close(folder);
}

TEST(LineReader, takes_lines_that_end_in_crlf) {
  Pipe pipe;
  pipe.write("one\r\ntwo\rthree\n\r\nlast\r");
  pipe.end();
  LineReader lines(pipe.reading());
  EXPECT_THAT(lines.next(9), ElementsAre("one", "two\rthree", "", "last"));
}

}  // namespace
}  // namespace adjoin::cli
