#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/data/text_file.hpp"

namespace adjoin::data {

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
