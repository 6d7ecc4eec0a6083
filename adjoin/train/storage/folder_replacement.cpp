#include "adjoin/train/storage/folder_replacement.hpp"

#include <system_error>
#include <utility>
#include <vector>

#include "adjoin/train/storage/output_file.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

fs::path beside(const fs::path& parent, const std::string& name, const char* suffix) {
  return parent / (name + suffix);
}

void sync_tree(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) sync_to_disk(entry.path());
  sync_to_disk(folder);
}

/// `name`.old, or `name`.old.1, … where the ones before could not be removed.
fs::path free_place_aside(const fs::path& parent, const std::string& name) {
  const fs::path first = beside(parent, name, ".old");
  fs::path place = first;
  for (int number = 1; fs::exists(place); ++number) place = first.string() + "." + std::to_string(number);
  return place;
}

/// Removes all that was replaced; whether nothing of it is left.
bool remove_replaced(const fs::path& parent, const std::string& name) {
  const std::string old = name + ".old";
  std::vector<fs::path> replaced;
  for (const auto& entry : fs::directory_iterator(parent))
    if (const std::string found = entry.path().filename(); found == old || found.starts_with(old + "."))
      replaced.push_back(entry.path());
  bool all_gone = true;
  for (const fs::path& path : replaced) {
    std::error_code error;
    fs::remove_all(path, error);
    all_gone &= !error;
  }
  return all_gone;
}

/// What has stepped aside is of no more use.
void step_aside(const fs::path& parent, const std::string& name) {
  if (fs::exists(parent / name)) fs::rename(parent / name, free_place_aside(parent, name));
}

/// Gives `name`.next its name.
void take_place(const fs::path& parent, const std::string& name) {
  step_aside(parent, name);
  fs::rename(beside(parent, name, ".next"), parent / name);
  sync_to_disk(parent);
}

}  // namespace

FolderReplacement::FolderReplacement(fs::path parent, std::string name)
    : parent_(std::move(parent)), name_(std::move(name)), fresh_(beside(parent_, name_, ".new")) {
  recover_folder(parent_, name_);
  on_disk([&] { fs::create_directory(fresh_); });
}

FolderReplacement::~FolderReplacement() {
  std::error_code ignored;
  if (!published_) fs::remove_all(fresh_, ignored);
}

bool FolderReplacement::publish() {
  return on_disk([&] {
    sync_tree(fresh_);
    fs::rename(fresh_, beside(parent_, name_, ".next"));
    published_ = true;
    sync_to_disk(parent_);  // or a power cut could find the old folder aside and the new one not yet called whole
    take_place(parent_, name_);
    return remove_replaced(parent_, name_);
  });
}

bool recover_folder(const fs::path& parent, const std::string& name) {
  return on_disk([&] {
    if (fs::exists(beside(parent, name, ".next"))) take_place(parent, name);
    fs::remove_all(beside(parent, name, ".new"));
    remove_replaced(parent, name);
    return fs::exists(parent / name);
  });
}

void remove_folder(const fs::path& parent, const std::string& name) {
  on_disk([&] {
    recover_folder(parent, name);
    step_aside(parent, name);
    sync_to_disk(parent);
    remove_replaced(parent, name);
  });
}

std::optional<fs::path> find_folder(const fs::path& parent, const std::string& name) {
  return on_disk([&]() -> std::optional<fs::path> {
    const fs::path next = beside(parent, name, ".next"), current = parent / name;
    for (const fs::path& place : {next, current, next, current})  // twice, as it may be renamed between two looks
      if (fs::exists(place)) return place;
    return std::nullopt;
  });
}

}  // namespace adjoin::train
