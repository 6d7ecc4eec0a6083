#include "adjoin/base/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace adjoin {

namespace {

namespace fs = std::filesystem;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// The number of cores whose time the cgroup allows.
double cpu_quota(const fs::path& root) {
  const fs::path cgroups = root / "sys/fs/cgroup";
  const double unified = least_limit(cgroups, cgroup_of(root, ""), [](const fs::path& folder) {
    std::ifstream in(folder / "cpu.max");
    double quota = 0, period = 0;
    return in >> quota >> period ? quota / period : kNoLimit;
  });
  const double first_version = least_limit(cgroups / "cpu", cgroup_of(root, "cpu"), [](const fs::path& folder) {
    const double quota = number_in(folder / "cpu.cfs_quota_us", -1),
                 period = number_in(folder / "cpu.cfs_period_us", 0);
    return quota > 0 && period > 0 ? quota / period : kNoLimit;
  });
  return std::min(unified, first_version);
}

int cores_of_affinity(int otherwise) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : otherwise;  // fails above 1,024 cores
}

}  // namespace

double number_in(const std::filesystem::path& file, double otherwise) {
  std::ifstream in(file);
  double number = otherwise;
  return in >> number ? number : otherwise;
}

std::string cgroup_of(const std::filesystem::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // number:controller,controller:/path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    std::stringstream names(line.substr(first + 1, second - first - 1) + ",");
    for (std::string name; std::getline(names, name, ',');)
      if (name == controller) return line.substr(second + 1);
  }
  return "/";
}

int usable_cores(const std::filesystem::path& root) {
  const int online = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  const int allowed = cores_of_affinity(online);
  const double quota = cpu_quota(root);
  return quota < allowed ? std::max(1, static_cast<int>(quota)) : allowed;
}

bool ThreadCores::is_taken(int core) const {
  return std::any_of(cores_.begin(), cores_.end(),
                     [&](const auto& other) { return other.load(std::memory_order_relaxed) == core + 1; });
}

void ThreadCores::step_aside(int thread) {
  if (cores_.size() < 2) return;
  const int here = sched_getcpu();
  std::atomic<int>& mine = cores_[static_cast<size_t>(thread)];
  mine.store(here + 1, std::memory_order_relaxed);
  // The lower-numbered thread stays, or both would move.
  const bool is_shared = std::any_of(cores_.begin(), cores_.begin() + thread, [&](const auto& other) {
    return other.load(std::memory_order_relaxed) == here + 1;
  });
  cpu_set_t all;
  if (!is_shared || sched_getaffinity(0, sizeof(all), &all) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || is_taken(core)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return;
    sched_setaffinity(0, sizeof(all), &all);
    mine.store(core + 1, std::memory_order_relaxed);
    return;
  }
}

}  // namespace adjoin
