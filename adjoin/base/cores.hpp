#pragma once

#include <algorithm>
#include <filesystem>
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

}  // namespace adjoin
