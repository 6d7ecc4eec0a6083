#pragma once

#include <filesystem>
#include <string>

namespace adjoin::train {

/// A folder into which training writes, recognised by the file `.adjoin` in it.
///
/// A folder is accepted if it does not exist (it is created, with its parents), if it is empty, or if it is ours. Every other
/// folder is refused, so that other people's files are neither mixed with ours nor replaced. One process at a time holds a
/// folder.
class OutputFolder {
 public:
  /// Checks whether the folder would be accepted, without writing: for a check before long work begins.
  /// Throws: InvalidArgument, with the reason, if not.
  static void check(const std::filesystem::path& path);

  /// Checks whether files can be written there: makes the folder and a file in it, and removes both.
  /// Throws: InvalidArgument as check does; IoError
  static void try_out(const std::filesystem::path& path);

  /// Whether the folder has the file `.adjoin`.
  static bool is_ours(const std::filesystem::path& path);
  /// Whether a process holds the folder now. True where the file system has no locks, as nobody can know then.
  static bool is_held(const std::filesystem::path& path);

  /// Holds the folder until this object is destroyed.
  /// Throws: InvalidArgument as check does, or when another process holds the folder; IoError for the disk.
  explicit OutputFolder(std::filesystem::path path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace adjoin::train
