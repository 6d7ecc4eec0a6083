#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <span>
#include <string>

namespace adjoin {

/// The cores that this process may use, at least 1: what its affinity (a container's or mpirun's binding) and its
/// cgroup's quota leave. Reads /proc and /sys below `root`, whose files are few: keep the number.
int usable_cores(const std::filesystem::path& root = "/");

/// The number at the beginning of a file; `otherwise` where there is none ("max" in a cgroup's files) or no file.
double number_in(const std::filesystem::path& file, double otherwise);

/// The cgroup of this process for a controller of version 1, or for version 2 (""), as /proc tells.
std::string cgroup_of(const std::filesystem::path& root, const std::string& controller);

/// The least of `limit(folder)` over a cgroup's folder and those above it. A container may see its own cgroup at the
/// top of the tree and not at the path that /proc tells.
template <class Limit>
double least_limit(const std::filesystem::path& top, const std::string& cgroup, Limit limit) {
  double least = limit(top);
  for (auto path = std::filesystem::path(cgroup).relative_path(); !path.empty(); path = path.parent_path())
    least = std::min(least, limit(top / path));
  return least;
}

/// Keeps threads that wait for each other off one core, where there is one for each.
///
/// The system puts threads that wake each other onto one core, and leaves them there for long: each sees the other only
/// when it yields, and small operations then take ten times as long. One that waits for longer than a meeting takes
/// says on which core it is, and moves where another one was last seen on that.
class Placement {
 public:
  /// `cores` has a place for each, all zero at first, in memory that all share; none where nothing is to be done.
  explicit Placement(std::span<std::atomic<int>> cores) : cores_(cores) {}

  /// Called by the thread of this number. It may run on all its cores again at once.
  void step_aside(int thread);

 private:
  bool is_taken(int core) const;

  std::span<std::atomic<int>> cores_;  // one more than where each was when it last came here
};

}  // namespace adjoin
