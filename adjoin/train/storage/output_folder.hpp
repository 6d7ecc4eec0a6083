#pragma once

#include <filesystem>
#include <string>

namespace adjoin::train {

/// A folder that training writes into, recognised by the file `.adjoin` in it.
///
/// A folder is taken when it does not exist (it is created, with its parents), when it is empty, or when it is ours;
/// every other is refused, so that no one's files are mixed with ours or replaced. One process at a time holds a
/// folder.
class OutputFolder {
 public:
  /// Whether the folder can be taken, without touching the disk: for a check before long work begins.
  /// Throws: InvalidArgument that says why not.
  static void check(const std::filesystem::path& path);

  /// Whether files can be written there: makes the folder and a file in it, and removes what it has made.
  /// Throws: InvalidArgument as check does; IoError
  static void try_out(const std::filesystem::path& path);

  /// Whether the folder carries the mark.
  static bool is_ours(const std::filesystem::path& path);
  /// Whether a process holds the folder now. Where the file system knows no locks nobody can tell, and it is said to be held.
  static bool is_held(const std::filesystem::path& path);

  /// Takes the folder until the end of this object's life.
  /// Throws: InvalidArgument as check does, or when another process holds it; IoError for the disk.
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
