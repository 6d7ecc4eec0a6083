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

enum class Separator : char { comma = ',', semicolon = ';', tab = '\t' };

/// What separates the fields of a CSV file: semicolons if its first line has some and no comma outside quotes, as spreadsheets
/// write where numbers have decimal commas; else commas.
/// Throws: InvalidArgument where the file cannot be read
Separator separator_of_csv(const std::string& path);

/// Reads the records of a file of separated fields one after the other; the file may be gzipped (".gz"). With commas and
/// semicolons, quoted fields may contain these, newlines and doubled quotes; with tabs, fields are used as they are. Lines end in
/// LF or CRLF; a byte order mark and empty lines are skipped. Every record must have as many fields as the first.
/// Source: RFC 4180; text/tab-separated-values, IANA.
class CsvReader {
 public:
  /// Throws: InvalidArgument where the file cannot be opened.
  explicit CsvReader(const std::string& path, Separator separator = Separator::comma)
      : file_(path), separator_(static_cast<char>(separator)) {}

  /// Reads the next record into `fields`; false at the end of the file.
  /// Throws: InvalidArgument, with file and line, for a broken quote (the line where it opened), a wrong number of fields, and
  ///         a truncated or damaged gzip stream.
  bool next(std::vector<std::string>& fields);

  /// The line, from 1, on which the last record began.
  int64_t line() const { return record_line_; }
  const std::string& path() const { return file_.path(); }

  /// As TextFile::fail.
  [[noreturn]] void fail(int64_t line, const std::string& what) { file_.fail(line, what); }

 private:
  bool has_quotes() const { return separator_ != static_cast<char>(Separator::tab); }
  void read_record(std::vector<std::string>& fields);
  void read_quoted(std::string& field);
  void read_plain(std::string& field);

  TextFile file_;
  char separator_;
  int64_t record_line_ = 0;
  size_t columns_ = 0;
};

}  // namespace adjoin::data
