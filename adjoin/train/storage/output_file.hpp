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

/// A file being written. Every call throws IoError that names the file and the reason when the disk refuses.
class OutputFile {
 public:
  /// A file that is filled is there already, as long as it is to be.
  enum class Mode : uint8_t { replace, append, fill };

  /// `name` is what errors call it, where that is not its path.
  explicit OutputFile(const std::filesystem::path& path, Mode mode = Mode::replace, std::filesystem::path name = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes all bytes, or throws and leaves the file as long as it was before the call.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Writes bytes at a place, also where another process writes others of the same file.
  void write_at(const void* data, size_t bytes, int64_t offset);
  /// Makes the file so long, with room for all of it on the disk where the file system knows how to keep some.
  void reserve(int64_t bytes);
  /// Returns when what was written is on the disk.
  void sync();
  /// Closes with the errors that only closing reports; the destructor closes silently.
  void close();

 private:
  std::filesystem::path path_;  // in errors
  int descriptor_ = -1;
};

/// A file that is written beside its place and renamed into it, so that its place never holds half of it. A link keeps
/// pointing to its file, which is replaced; what is no file (a pipe, a device) is written to as it comes.
class AtomicFile {
 public:
  /// Throws: IoError
  explicit AtomicFile(const std::filesystem::path& path);
  /// Removes what was not published; the place is then as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  OutputFile& file() { return *file_; }
  /// Puts the file into its place, when all of it is on the disk. Throws: IoError
  void publish();

 private:
  std::filesystem::path place_, temporary_;  // no temporary: written as it comes
  std::optional<OutputFile> file_;
};

/// Gives a file that is on the disk its name, and returns when that is there too. Throws: IoError
void publish_file(const std::filesystem::path& fresh, const std::filesystem::path& place);

/// Writes an AtomicFile. Throws: IoError, or what `writer` throws
void write_atomically(const std::filesystem::path& path, const std::function<void(OutputFile&)>& writer);
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// Runs `function`, whose failures of the file system become IoError.
template <class Function>
auto on_disk(Function function) {
  try {
    return function();
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string& where = (error.path2().empty() ? error.path1() : error.path2()).string();
    throw IoError(where + ": " + error.code().message());
  }
}

/// Returns when the file or folder itself is on the disk, so that a rename or new file survives a power cut.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace adjoin::train
