#include "adjoin/train/output_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/train/output_file.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".adjoin";

/// Runs `function`, whose failures of the file system become IoError.
template <class Function>
auto on_disk(Function function) {
  try {
    return function();
  } catch (const fs::filesystem_error& error) {
    const std::string& where = (error.path2().empty() ? error.path1() : error.path2()).string();
    throw IoError(where + ": " + error.code().message());
  }
}

void sync_tree(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) sync_to_disk(entry.path());
  sync_to_disk(folder);
}

/// Whether the folder's place is free or the folder is empty, ours, or neither.
enum class Standing { absent, empty, ours, foreign };

Standing standing_of(const fs::path& path) {
  if (!fs::exists(path)) return Standing::absent;
  if (!fs::is_directory(path)) throw InvalidArgument("--out " + path.string() + ": exists and is not a folder");
  if (fs::exists(path / kMarker)) return Standing::ours;
  return fs::is_empty(path) ? Standing::empty : Standing::foreign;
}

}  // namespace

void OutputFolder::check(const fs::path& path) {
  require(!path.empty(), "--out: the name of a folder is needed");
  on_disk([&] {
    require(standing_of(path) != Standing::foreign, [&] {
      return "--out " + path.string() + ": the folder exists, is not empty and was not made by adjoin (no file " +
             kMarker + " in it); choose another or empty it";
    });
    for (fs::path above = fs::absolute(path).parent_path(); above.has_relative_path(); above = above.parent_path())
      if (fs::exists(above)) {
        require(fs::is_directory(above),
                [&] { return "--out " + path.string() + ": " + above.string() + " is not a folder"; });
        return;
      }
  });
}

OutputFolder::OutputFolder(fs::path path) : path_(std::move(path)) {
  check(path_);
  const bool created = on_disk([&] { return fs::create_directories(path_); });
  const fs::path marker = path_ / kMarker;
  lock_ = ::open(marker.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    const int error = errno;
    std::error_code ignored;
    if (created) fs::remove(path_, ignored);
    throw IoError(marker.string() + ": cannot be created: " + std::strerror(error));
  }
  // Some network file systems know no locks: what remains then is the marker.
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    throw InvalidArgument("--out " + path_.string() + ": another process is writing there");
  }
}

OutputFolder::~OutputFolder() {
  ::close(lock_);
}

void replace_folder(const fs::path& parent, const std::string& name, const std::function<void(const fs::path&)>& fill) {
  recover_folder(parent, name);
  const fs::path current = parent / name, fresh = parent / (name + ".new"), old = parent / (name + ".old");
  try {
    on_disk([&] {
      fs::create_directory(fresh);
      fill(fresh);
      sync_tree(fresh);
    });
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  on_disk([&] {
    // `old` exists only once `fresh` is complete: this is how recover_folder tells a whole `fresh` from a torn one.
    if (fs::exists(current)) fs::rename(current, old);
    fs::rename(fresh, current);
    sync_to_disk(parent);
    fs::remove_all(old);
  });
}

bool recover_folder(const fs::path& parent, const std::string& name) {
  const fs::path current = parent / name, fresh = parent / (name + ".new"), old = parent / (name + ".old");
  return on_disk([&] {
    if (const auto whole = find_replaced(parent, name); whole && *whole != current) fs::rename(*whole, current);
    fs::remove_all(fresh);
    fs::remove_all(old);
    return fs::exists(current);
  });
}

std::optional<fs::path> find_replaced(const fs::path& parent, const std::string& name) {
  const fs::path current = parent / name, fresh = parent / (name + ".new"), old = parent / (name + ".old");
  return on_disk([&]() -> std::optional<fs::path> {
    if (fs::exists(current)) return current;
    if (!fs::exists(old)) return std::nullopt;
    return fs::exists(fresh) ? fresh : old;
  });
}

}  // namespace adjoin::train
