#include "adjoin/train/output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::train {
namespace {

constexpr size_t kLargestWrite = size_t{1} << 30;  // Linux writes at most 2 GiB less a page in one call

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int error) {
  throw IoError(path.string() + ": " + what + ": " + std::strerror(error));
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::append ? O_APPEND : O_TRUNC);
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0) fail(path_, "cannot be opened for writing", errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  for (size_t done = 0; done < bytes;) {
    const ssize_t written = ::write(descriptor_, from + done, std::min(bytes - done, kLargestWrite));
    if (written > 0) {
      done += static_cast<size_t>(written);
    } else if (written == 0 || errno != EINTR) {
      const int error = written == 0 ? ENOSPC : errno;
      const off_t end = ::lseek(descriptor_, 0, SEEK_CUR);
      // A device has no length to restore; the error that is thrown says enough.
      if (end >= 0 && ::ftruncate(descriptor_, end - static_cast<off_t>(done)) == 0) ::lseek(descriptor_, 0, SEEK_END);
      fail(path_, "cannot be written", error);
    }
  }
}

void OutputFile::sync() {
  // EINVAL: a pipe or a device, which has no disk behind it.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail(path_, "cannot be written to the disk", errno);
}

void OutputFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0) fail(path_, "cannot be closed", errno);
}

void write_atomically(const std::filesystem::path& given, const std::function<void(OutputFile&)>& writer) {
  std::error_code none;
  const auto status = std::filesystem::status(given, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    OutputFile stream(given);  // a pipe, a terminal or a device, which a file must not replace
    writer(stream);
    return stream.close();
  }
  const bool is_link = std::filesystem::is_symlink(given, none) && std::filesystem::exists(status);
  const std::filesystem::path path = is_link ? std::filesystem::canonical(given) : given;
  std::filesystem::path temporary = path;
  temporary += ".new";
  try {
    OutputFile file(temporary);
    writer(file);
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail(path, "cannot be replaced", errno);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  sync_to_disk(folder_of(path));
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, [&](OutputFile& file) { file.write(text); });
}

void sync_to_disk(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "cannot be opened", errno);
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0 && error != EINVAL) fail(path, "cannot be written to the disk", error);
}

}  // namespace adjoin::train
