#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace adjoin::train {

/// Replaces the folder `parent`/`name` as a whole, by the process that holds `parent`.
///
/// The new folder is filled as `name`.new, is called `name`.next once it is complete and on the disk, and takes its place
/// when the old one has stepped aside to `name`.old. So a name tells what is whole, and a crash at any moment leaves the
/// old folder or the new one for recover_folder and find_folder to find.
class FolderReplacement {
 public:
  /// Begins with what recover_folder does, and an empty `name`.new. Throws: IoError
  FolderReplacement(std::filesystem::path parent, std::string name);
  /// Removes what was not published; the old folder is then as it was.
  ~FolderReplacement();
  FolderReplacement(const FolderReplacement&) = delete;
  FolderReplacement& operator=(const FolderReplacement&) = delete;

  /// Where the new folder's files are to be written.
  const std::filesystem::path& folder() const { return fresh_; }

  /// Writes the new folder to the disk, puts it into its place and removes the old one; whether all of that went. Where
  /// something cannot be removed (network file systems keep what somebody has open), a later replacement tries again.
  /// Throws: IoError
  bool publish();

 private:
  std::filesystem::path parent_;
  std::string name_;
  std::filesystem::path fresh_;
  bool published_ = false;
};

/// Finishes or undoes what a crash in a replacement left, and returns whether `parent`/`name` exists. For the process
/// that holds `parent`, before it reads: one that only looks would take away what another is filling.
bool recover_folder(const std::filesystem::path& parent, const std::string& name);

/// Removes `parent`/`name`, by the process that holds `parent`: a crash leaves all of it or nothing to be found.
void remove_folder(const std::filesystem::path& parent, const std::string& name);

/// Where the folder that recover_folder would give stands now, if there is one: for those that only read.
std::optional<std::filesystem::path> find_folder(const std::filesystem::path& parent, const std::string& name);

}  // namespace adjoin::train
