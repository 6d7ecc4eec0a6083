#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace adjoin::data {

/// Reads the records of a comma-separated file one after the other; the file may be gzipped (".gz").
/// Quoted fields may hold commas, newlines and doubled quotes; lines end in LF or CRLF; a byte order mark and empty
/// lines are skipped. Every record has as many fields as the first.
/// Source: RFC 4180.
class CsvReader {
 public:
  /// Throws: InvalidArgument where the file cannot be opened.
  explicit CsvReader(const std::string& path);

  /// Reads the next record into `fields`; false at the end of the file.
  /// Throws: InvalidArgument that names file and line: a broken quote (the line where it opened), a wrong number of
  /// fields, a truncated or damaged gzip stream.
  bool next(std::vector<std::string>& fields);

  /// The line, from 1, on which the last record began.
  int64_t line() const { return record_line_; }
  const std::string& path() const { return path_; }

  /// Throws InvalidArgument about a line of the file, or, where the wrong content comes from a damaged gzip stream,
  /// about that.
  [[noreturn]] void fail(int64_t line, const std::string& what);

 private:
  static constexpr int kEnd = -1;

  int peek();
  int take();
  void fill();
  void skip_byte_order_mark();
  bool skip_empty_lines();
  void read_record(std::vector<std::string>& fields);
  void read_quoted(std::string& field);
  void read_plain(std::string& field);
  bool at_line_end();
  [[noreturn]] void fail_stream(const std::string& what) const;

  std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> buffer_;
  size_t at_ = 0, filled_ = 0;
  int64_t line_ = 1, record_line_ = 0;
  size_t columns_ = 0;
};

}  // namespace adjoin::data
