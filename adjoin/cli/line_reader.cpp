#include "adjoin/cli/line_reader.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "adjoin/base/error.hpp"

namespace adjoin::cli {

std::vector<std::string> LineReader::next(size_t most) {
  std::vector<std::string> lines;
  while (lines.size() < most) {
    if (take_line(lines)) continue;
    if (ended_ || (!lines.empty() && !has_come())) break;
    read();
  }
  return lines;
}

bool LineReader::take_line(std::vector<std::string>& lines) {
  size_t end = buffer_.find('\n', searched_);
  if (end == buffer_.npos) {
    searched_ = buffer_.size();
    if (!ended_ || begin_ == buffer_.size()) return false;
    end = buffer_.size();
  }
  lines.push_back(buffer_.substr(begin_, end - begin_));
  if (lines.back().ends_with('\r')) lines.back().pop_back();
  begin_ = searched_ = std::min(end + 1, buffer_.size());
  return true;
}

bool LineReader::has_come() const {
  pollfd ready{.fd = descriptor_, .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, /*milliseconds=*/0) > 0;
}

void LineReader::read() {
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  std::array<char, 1 << 16> chunk;
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, chunk.data(), chunk.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw IoError(std::string("standard input: cannot be read: ") + std::strerror(errno));
  ended_ = got == 0;
  buffer_.append(chunk.data(), static_cast<size_t>(got));
}

}  // namespace adjoin::cli
