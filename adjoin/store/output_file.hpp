#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "adjoin/base/error.hpp"

namespace adjoin::train {

/// A file being written. Where the disk refuses, every call throws IoError with the file's name and the reason.
class OutputFile {
 public:
  /// With `fill` the file exists already and has its final length.
  enum class Mode : uint8_t { replace, append, fill };

  /// `name`: the file's name in errors, if it is not the path.
  explicit OutputFile(const std::filesystem::path& path, Mode mode = Mode::replace, std::filesystem::path name = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes all bytes, or throws and leaves the file as long as it was before the call.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Writes bytes at an offset, also while another process writes other bytes of the same file.
  void write_at(const void* data, size_t bytes, int64_t offset);
  /// Sets the file's length, and reserves room for all of it on the disk if the file system supports that.
  void reserve(int64_t bytes);
  /// Returns when what was written is on the disk.
  void sync();
  /// Closes the file, and throws the errors that only closing reports; the destructor closes silently.
  void close();

 private:
  std::filesystem::path path_;  // in errors
  int descriptor_ = -1;
};

/// A file that is written beside its final place and then renamed, so that its place never holds half of it. Where the place is
/// a link, the link stays and the file that it points to is replaced. A pipe or a device is written to directly.
class AtomicFile {
 public:
  /// Throws: IoError
  explicit AtomicFile(const std::filesystem::path& path);
  /// Removes a file that was not published; the place is then unchanged.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  OutputFile& file() { return *file_; }
  /// Moves the file to its place, when all of it is on the disk. Throws: IoError
  void publish();

 private:
  std::filesystem::path place_, temporary_;  // if `temporary_` is empty, the place is written to directly
  std::optional<OutputFile> file_;
};

/// Throws: IoError where something stands that a file must not replace: a folder, a pipe, a device
void check_replaceable(const std::filesystem::path& place);
/// Gives its name to a file that is on the disk, and returns when the name is on the disk too. Throws: IoError
void publish_file(const std::filesystem::path& fresh, const std::filesystem::path& place);

/// Writes an AtomicFile. Throws: IoError, or what `writer` throws
void write_atomically(const std::filesystem::path& path, const std::function<void(OutputFile&)>& writer);
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// Runs `function`; failures of the file system become IoError.
template <class Function>
auto on_disk(Function function) {
  try {
    return function();
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string& where = (error.path2().empty() ? error.path1() : error.path2()).string();
    throw IoError(where + ": " + error.code().message());
  }
}

/// The file system's reason for refusing to `write`, or "".
template <class Function>
std::string refusal_of(Function write) {
  try {
    on_disk(write);
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

/// Returns when the file or folder itself is on the disk, so that a rename or new file survives a power cut.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace adjoin::train
