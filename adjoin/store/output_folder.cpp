#include "adjoin/store/output_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/store/output_file.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".adjoin";
constexpr int kTries = 5;
constexpr auto kBetweenTries = std::chrono::milliseconds(10);

/// Whether the folder does not exist, is empty, is ours, or belongs to somebody else.
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

void OutputFolder::try_out(const fs::path& path) {
  check(path);
  std::vector<fs::path> made;
  for (fs::path folder = fs::absolute(path); !fs::exists(folder) && folder.has_relative_path();
       folder = folder.parent_path())
    made.push_back(folder);
  on_disk([&] {
    fs::create_directories(path);
    const AtomicFile file(path / kMarker);  // never published
  });
  std::error_code is_used_by_others;
  for (const fs::path& folder : made) fs::remove(folder, is_used_by_others);
}

bool OutputFolder::is_ours(const fs::path& path) {
  return on_disk([&] { return fs::exists(path / kMarker); });
}

bool OutputFolder::is_held(const fs::path& path) {
  const int marker = ::open((path / kMarker).c_str(), O_RDONLY | O_CLOEXEC);
  if (marker < 0) return false;
  const bool is_free = ::flock(marker, LOCK_SH | LOCK_NB) == 0;
  ::close(marker);
  return !is_free;
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
  // Some network file systems have no locks; then only the marker remains. A process that asks whether the folder is held
  // (is_held) itself holds a lock for some microseconds.
  const auto is_taken = [&] { return ::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; };
  for (int tries = 0; is_taken(); ++tries) {
    if (tries < kTries) {
      std::this_thread::sleep_for(kBetweenTries);
      continue;
    }
    ::close(lock_);
    throw InvalidArgument("--out " + path_.string() + ": another process is writing there");
  }
}

OutputFolder::~OutputFolder() {
  ::close(lock_);
}

}  // namespace adjoin::train
