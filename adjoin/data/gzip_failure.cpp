#include "adjoin/data/gzip_failure.hpp"

#include <cerrno>
#include <cstring>

namespace adjoin::data {

std::string gzip_failure(gzFile file, const std::string& path) {
  int error = Z_OK;
  std::string message = gzerror(file, &error);
  if (error == Z_OK) return "";
  if (error == Z_BUF_ERROR) return "the gzip stream ends early: the file is truncated";
  if (error == Z_ERRNO) return std::string("cannot read: ") + std::strerror(errno);
  if (message.starts_with(path + ": ")) message.erase(0, path.size() + 2);  // zlib adds the file's name
  return "the gzip stream is damaged: " + message;
}

}  // namespace adjoin::data
