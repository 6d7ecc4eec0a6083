#include "adjoin/data/csv.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/gzip_failure.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kBufferBytes = 1 << 18;

std::string count(size_t n, const char* noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace

CsvReader::CsvReader(const std::string& path) : path_(path), file_(nullptr, gzclose), buffer_(kBufferBytes) {
  require(!std::filesystem::is_directory(path), [&] { return path + ": is a folder; expected a CSV file"; });
  errno = 0;
  file_.reset(gzopen(path.c_str(), "rb"));
  require(file_ != nullptr, [&] { return path + ": cannot open: " + std::strerror(errno); });
  fill();
  require(filled_ == 0 || !path.ends_with(".gz") || !gzdirect(file_.get()),
          [&] { return path + ": is not a gzip file, though its name ends in .gz"; });
  skip_byte_order_mark();
}

bool CsvReader::next(std::vector<std::string>& fields) {
  if (!skip_empty_lines()) return false;
  record_line_ = line_;
  read_record(fields);
  if (columns_ == 0) columns_ = fields.size();
  if (fields.size() != columns_)
    fail(record_line_,
         "expected " + count(columns_, "field") + " as in the first line, found " + std::to_string(fields.size()));
  return true;
}

int CsvReader::peek() {
  if (at_ == filled_) fill();
  return at_ == filled_ ? kEnd : static_cast<unsigned char>(buffer_[at_]);
}

int CsvReader::take() {
  const int c = peek();
  if (c == kEnd) return c;
  ++at_;
  if (c == '\n') ++line_;
  return c;
}

void CsvReader::fill() {
  const int got = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
  if (const std::string failure = gzip_failure(file_.get(), path_); !failure.empty()) fail_stream(failure);
  at_ = 0;
  filled_ = static_cast<size_t>(got);
}

void CsvReader::skip_byte_order_mark() {
  if (std::string_view(buffer_.data(), filled_).starts_with("\xef\xbb\xbf")) at_ = 3;
}

bool CsvReader::skip_empty_lines() {
  while (peek() != kEnd) {
    if (!at_line_end()) return true;
    take();
  }
  return false;
}

/// Whether LF or CRLF comes next; of CRLF the CR is taken. A CR elsewhere is a character like others.
bool CsvReader::at_line_end() {
  if (peek() == '\r') {
    if (at_ + 1 == filled_) {  // the LF, if any, is beyond the buffer: keep the CR and read on
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

void CsvReader::read_record(std::vector<std::string>& fields) {
  for (size_t column = 0;; ++column) {
    if (column == fields.size()) fields.emplace_back();
    fields[column].clear();
    if (peek() == '"')
      read_quoted(fields[column]);
    else
      read_plain(fields[column]);
    if (const int end = take(); end != ',') return fields.resize(column + 1);
  }
}

void CsvReader::read_quoted(std::string& field) {
  const int64_t opened = line_;
  take();
  for (;;) {
    if (peek() == kEnd) fail(opened, "a quote opens here and never closes");
    const char* begin = buffer_.data() + at_;
    const char* end = buffer_.data() + filled_;
    const char* quote = std::find(begin, end, '"');
    field.append(begin, quote);
    line_ += std::count(begin, quote, '\n');
    at_ += static_cast<size_t>(quote - begin);
    if (quote == end) continue;
    take();
    if (peek() == '"') {
      field += static_cast<char>(take());
      continue;
    }
    if (peek() != ',' && peek() != kEnd && !at_line_end())
      fail(opened, "a quote opens here and closes before '" + printable(std::string(1, static_cast<char>(peek()))) +
                       "' instead of a comma or the end of the line; a quote inside a field is written twice");
    return;
  }
}

void CsvReader::read_plain(std::string& field) {
  while (peek() != ',' && peek() != kEnd && !at_line_end()) {
    if (peek() == '"') fail(line_, "a quote stands inside a field that does not begin with one");
    field += static_cast<char>(take());
  }
}

void CsvReader::fail(int64_t line, const std::string& what) {
  if (!gzdirect(file_.get()))
    while (filled_ > 0) fill();  // the checksum stands at the end
  throw InvalidArgument(path_ + ":" + std::to_string(line) + ": " + what);
}

void CsvReader::fail_stream(const std::string& what) const {
  throw InvalidArgument(path_ + ": " + what + " (found after line " + std::to_string(line_) + ")");
}

}  // namespace adjoin::data
