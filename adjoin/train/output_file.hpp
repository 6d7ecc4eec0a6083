#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace adjoin::train {

/// A file being written. Every call throws IoError that names the file and the reason when the disk refuses.
class OutputFile {
 public:
  enum class Mode : uint8_t { replace, append };

  explicit OutputFile(std::filesystem::path path, Mode mode = Mode::replace);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes all bytes, or throws and leaves the file as long as it was before the call.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Returns when what was written is on the disk.
  void sync();
  /// Closes with the errors that only closing reports; the destructor closes silently.
  void close();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Writes a file beside `path` and renames it into place, so that `path` is never half-written. A link keeps pointing to
/// its file, which is replaced; what is no file (a pipe, a device) is written to as it comes.
/// Throws: IoError, or what `writer` throws; the temporary is removed and `path` is as it was.
void write_atomically(const std::filesystem::path& path, const std::function<void(OutputFile&)>& writer);
void write_atomically(const std::filesystem::path& path, std::string_view text);

/// Returns when the file or folder itself is on the disk, so that a rename or new file survives a power cut.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace adjoin::train
