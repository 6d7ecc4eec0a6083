#pragma once

#include <filesystem>
#include <functional>
#include <optional>
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

/// Replaces the folder `parent`/`name` as a whole: `fill` writes into `name`.new, which takes its place when it is
/// complete and on the disk. A crash at any moment leaves the old folder or the new one for recover_folder to find.
/// Throws: IoError, or what `fill` throws; the old folder is then as it was.
void replace_folder(const std::filesystem::path& parent, const std::string& name,
                    const std::function<void(const std::filesystem::path& folder)>& fill);

/// Finishes or undoes what a crash in replace_folder left, and returns whether `parent`/`name` exists. For the process
/// that holds the folder, before it reads: one that only looks would take away what another is filling.
bool recover_folder(const std::filesystem::path& parent, const std::string& name);

/// Where the whole folder that recover_folder would give stands now, if there is one: for those that only read.
std::optional<std::filesystem::path> find_replaced(const std::filesystem::path& parent, const std::string& name);

}  // namespace adjoin::train
