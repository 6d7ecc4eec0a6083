#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adjoin::data {

/// Reads a text file, which may be gzipped (".gz"), from beginning to end, and counts lines. A byte order mark is skipped.
/// Lines end in LF or CRLF.
class TextFile {
 public:
  static constexpr int kEnd = -1;

  /// Throws: InvalidArgument where the file cannot be opened or is not of the kind that its name says.
  explicit TextFile(const std::string& path);

  /// The next byte, or kEnd; take() moves past it.
  /// Throws: InvalidArgument for a truncated or damaged gzip stream.
  int peek();
  int take();

  /// Appends to `text` everything before the next `stop`, or before the end of the file.
  void take_until(char stop, std::string& text);

  /// Whether LF or CRLF comes next; the CR of a CRLF is skipped. A CR elsewhere is an ordinary character.
  bool at_line_end();

  /// Moves to the next line that is not empty; false at the end of the file.
  bool skip_empty_lines();

  /// The next line that is not empty, without its end; false at the end of the file.
  bool next_line(std::string& line);

  /// The number of the current line, from 1.
  int64_t line() const { return line_; }
  const std::string& path() const { return path_; }

  /// Throws InvalidArgument about a line of the file or, if the wrong content comes from a damaged gzip stream, about that.
  [[noreturn]] void fail(int64_t line, const std::string& what);

 private:
  void fill();
  void skip_byte_order_mark();
  [[noreturn]] void fail_stream(const std::string& what) const;

  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> buffer_;
  size_t at_ = 0, filled_ = 0;
  int64_t line_ = 1;
};

}  // namespace adjoin::data
