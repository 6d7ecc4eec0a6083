#include "adjoin/data/csv.hpp"

#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"

namespace adjoin::data {

Separator separator_of_csv(const std::string& path) {
  TextFile file(path);
  file.skip_empty_lines();
  bool is_quoted = false, has_semicolon = false;
  for (int c = file.take(); c != TextFile::kEnd && (is_quoted || c != '\n'); c = file.take()) {
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted && c == ',') return Separator::comma;
    has_semicolon = has_semicolon || (!is_quoted && c == ';');
  }
  return has_semicolon ? Separator::semicolon : Separator::comma;
}

bool CsvReader::next(std::vector<std::string>& fields) {
  if (!file_.skip_empty_lines()) return false;
  record_line_ = file_.line();
  read_record(fields);
  if (columns_ == 0) columns_ = fields.size();
  if (fields.size() != columns_)
    fail(record_line_, "expected " + counted(static_cast<int64_t>(columns_), "field") +
                           " as in the first line, found " + std::to_string(fields.size()));
  return true;
}

void CsvReader::read_record(std::vector<std::string>& fields) {
  for (size_t column = 0;; ++column) {
    if (column == fields.size()) fields.emplace_back();
    fields[column].clear();
    if (has_quotes() && file_.peek() == '"')
      read_quoted(fields[column]);
    else
      read_plain(fields[column]);
    if (const int end = file_.take(); end != separator_) return fields.resize(column + 1);
  }
}

void CsvReader::read_quoted(std::string& field) {
  const int64_t opened = file_.line();
  file_.take();
  for (;;) {
    file_.take_until('"', field);
    if (file_.take() == TextFile::kEnd) fail(opened, "a quote opens here and never closes");
    if (file_.peek() == '"') {
      field += static_cast<char>(file_.take());
      continue;
    }
    if (file_.peek() != separator_ && file_.peek() != TextFile::kEnd && !file_.at_line_end())
      fail(opened, "a quote opens here and closes before '" +
                       printable(std::string(1, static_cast<char>(file_.peek()))) + "' instead of a " +
                       (separator_ == ',' ? "comma" : "semicolon") +
                       " or the end of the line; a quote inside a field is written twice");
    return;
  }
}

void CsvReader::read_plain(std::string& field) {
  while (file_.peek() != separator_ && file_.peek() != TextFile::kEnd && !file_.at_line_end()) {
    if (has_quotes() && file_.peek() == '"')
      fail(file_.line(), "a quote stands inside a field that does not begin with one");
    field += static_cast<char>(file_.take());
  }
}

}  // namespace adjoin::data
