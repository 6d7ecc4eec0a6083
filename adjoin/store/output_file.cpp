#include "adjoin/store/output_file.hpp"

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

constexpr int64_t kBegunAtOnce = 1 << 20;
constexpr size_t kLargestWrite = size_t{1} << 30;  // Linux writes at most 2 GiB minus a page in one call

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int error) {
  throw IoError(path.string() + ": " + what + ": " + std::strerror(error));
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path, Mode mode, std::filesystem::path name)
    : path_(name.empty() ? path : std::move(name)) {
  const int how = mode == Mode::fill ? 0 : O_CREAT | (mode == Mode::append ? O_APPEND : O_TRUNC);
  const int flags = O_WRONLY | O_CLOEXEC | how;
  descriptor_ = ::open(path.c_str(), flags, 0666);
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
      // A device has no length to restore; the error that is thrown is enough.
      if (end >= 0 && ::ftruncate(descriptor_, end - static_cast<off_t>(done)) == 0) ::lseek(descriptor_, 0, SEEK_END);
      fail(path_, "cannot be written", error);
    }
  }
}

void OutputFile::write_at(const void* data, size_t bytes, int64_t offset) {
  const auto* from = static_cast<const char*>(data);
  const int64_t begin = offset;
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor_, from, std::min(bytes, kLargestWrite), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path_, "cannot be written", written == 0 ? ENOSPC : errno);
    from += written, offset += written, bytes -= static_cast<size_t>(written);
  }
  // Starts writing to the disk while the next bytes are copied; sync waits for it and reports errors.
  if (offset - begin >= kBegunAtOnce) ::sync_file_range(descriptor_, begin, offset - begin, SYNC_FILE_RANGE_WRITE);
}

void OutputFile::reserve(int64_t bytes) {
  if (::ftruncate(descriptor_, bytes) != 0) fail(path_, "cannot be written", errno);
  // Not posix_fallocate, which writes to each block where the file system cannot reserve space.
  if (bytes > 0 && ::fallocate(descriptor_, 0, 0, bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
    fail(path_, "cannot be written", errno);
}

void OutputFile::sync() {
  // EINVAL: a pipe or a device without a disk.
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail(path_, "cannot be written to the disk", errno);
}

void OutputFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0) fail(path_, "cannot be closed", errno);
}

AtomicFile::AtomicFile(const std::filesystem::path& path) : place_(path) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  const bool exists = std::filesystem::exists(status);
  // A file must not replace a pipe, a terminal or a device.
  if (exists && !std::filesystem::is_regular_file(status)) {
    file_.emplace(place_);
    return;
  }
  if (exists && std::filesystem::is_symlink(path, none)) place_ = std::filesystem::canonical(path);
  temporary_ = place_;
  temporary_ += ".adjoin-new";  // a name that nobody else uses
  file_.emplace(temporary_, OutputFile::Mode::replace, path);
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove(temporary_, ignored);
}

void AtomicFile::publish() {
  if (temporary_.empty()) return file_->close();
  file_->sync();
  file_->close();
  publish_file(temporary_, place_);
  temporary_.clear();
}

void check_replaceable(const std::filesystem::path& place) {
  std::error_code none;
  const auto status = std::filesystem::status(place, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw IoError(place.string() + ": is not a regular file");
}

void publish_file(const std::filesystem::path& fresh, const std::filesystem::path& place) {
  if (::rename(fresh.c_str(), place.c_str()) != 0) fail(place, "cannot be replaced", errno);
  sync_to_disk(folder_of(place));
}

void write_atomically(const std::filesystem::path& path, const std::function<void(OutputFile&)>& writer) {
  AtomicFile file(path);
  writer(file.file());
  file.publish();
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
