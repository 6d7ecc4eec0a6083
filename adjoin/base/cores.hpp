#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <span>
#include <string>

namespace adjoin {

/// The number of cores that this process may use, at least 1, as limited by its affinity (a container's or mpirun's
/// binding) and its cgroup's quota. Reads a few files of /proc and /sys below `root`: keep the result.
int usable_cores(const std::filesystem::path& root = "/");

/// The number at the beginning of a file; `otherwise` where it begins with none ("max" in a cgroup's files) or is
/// missing.
double number_in(const std::filesystem::path& file, double otherwise);

/// The path of this process's cgroup in /proc, for a controller of version 1, or for version 2 ("").
std::string cgroup_of(const std::filesystem::path& root, const std::string& controller);

/// The smallest `limit(folder)` over a cgroup's folder and its parents. A container may see its own cgroup at the top
/// of the tree and not at the path that /proc reports.
template <class Limit>
double least_limit(const std::filesystem::path& top, const std::string& cgroup, Limit limit) {
  double least = limit(top);
  for (auto path = std::filesystem::path(cgroup).relative_path(); !path.empty(); path = path.parent_path())
    least = std::min(least, limit(top / path));
  return least;
}

/// Keeps threads that wait for each other on different cores, where there is a core for each.
///
/// The system puts threads that wake each other on one core and leaves them there for long: each sees the other's
/// progress only when that one yields, and small operations then take ten times as long. A thread that waits longer
/// than a meeting takes publishes its core, and moves where another thread was last seen on the same core.
class ThreadCores {
 public:
  /// `cores` has one entry per thread, initially zero, in memory that all share; it is empty where nothing is to be
  /// done.
  explicit ThreadCores(std::span<std::atomic<int>> cores) : cores_(cores) {}

  /// Called by thread number `thread`. Its affinity is the same again on return.
  void step_aside(int thread);

 private:
  bool is_taken(int core) const;

  std::span<std::atomic<int>> cores_;  // of each thread: its core when it last called, plus one
};

}  // namespace adjoin
