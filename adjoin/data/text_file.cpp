#include "adjoin/data/text_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/gzip_failure.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kBufferBytes = 1 << 18;

}  // namespace

TextFile::TextFile(const std::string& path) : path_(path), file_(nullptr, gzclose), buffer_(kBufferBytes) {
  require(!std::filesystem::is_directory(path), [&] { return path + ": is a folder; expected a text file"; });
  errno = 0;
  file_.reset(gzopen(path.c_str(), "rb"));
  require(file_ != nullptr, [&] { return path + ": cannot open: " + std::strerror(errno); });
  fill();
  require(filled_ == 0 || !path.ends_with(".gz") || !gzdirect(file_.get()),
          [&] { return path + ": is not a gzip file, though its name ends in .gz"; });
  skip_byte_order_mark();
}

int TextFile::peek() {
  if (at_ == filled_) fill();
  return at_ == filled_ ? kEnd : static_cast<unsigned char>(buffer_[at_]);
}

int TextFile::take() {
  const int c = peek();
  if (c == kEnd) return c;
  ++at_;
  if (c == '\n') ++line_;
  return c;
}

void TextFile::take_until(char stop, std::string& text) {
  while (peek() != kEnd) {
    const char* begin = buffer_.data() + at_;
    const char* end = buffer_.data() + filled_;
    const char* found = std::find(begin, end, stop);
    text.append(begin, found);
    line_ += std::count(begin, found, '\n');
    at_ += static_cast<size_t>(found - begin);
    if (found != end) return;
  }
}

bool TextFile::at_line_end() {
  if (peek() == '\r') {
    if (at_ + 1 == filled_) {  // the LF, if there is one, is beyond the buffer: keep the CR and read on
      const int got = gzgetc(file_.get());
      buffer_[0] = '\r';
      if (got >= 0) buffer_[1] = static_cast<char>(got);
      at_ = 0;
      filled_ = got >= 0 ? 2 : 1;
    }
    if (at_ + 1 < filled_ && buffer_[at_ + 1] == '\n') ++at_;
  }
  return peek() == '\n';
}

bool TextFile::skip_empty_lines() {
  while (peek() != kEnd) {
    if (!at_line_end()) return true;
    take();
  }
  return false;
}

bool TextFile::next_line(std::string& line) {
  line.clear();
  if (!skip_empty_lines()) return false;
  take_until('\n', line);
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

void TextFile::fill() {
  const int got = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
  if (const std::string failure = gzip_failure(file_.get(), path_); !failure.empty()) fail_stream(failure);
  at_ = 0;
  filled_ = static_cast<size_t>(got);
}

void TextFile::skip_byte_order_mark() {
  if (std::string_view(buffer_.data(), filled_).starts_with("\xef\xbb\xbf")) at_ = 3;
}

void TextFile::fail(int64_t line, const std::string& what) {
  if (!gzdirect(file_.get()))
    while (filled_ > 0) fill();  // the checksum is at the end
  throw InvalidArgument(path_ + ":" + std::to_string(line) + ": " + what);
}

void TextFile::fail_stream(const std::string& what) const {
  throw InvalidArgument(path_ + ": " + what + " (found after line " + std::to_string(line_) + ")");
}

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
