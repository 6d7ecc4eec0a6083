#include "adjoin/lab/machine.hpp"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "adjoin/base/cores.hpp"
#include "adjoin/base/instruction_set.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin {

namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

std::string node_name() {
  const char* node = std::getenv("SLURMD_NODENAME");
  return node && *node ? node : host_name();
}

double cgroup_memory(const fs::path& root) {
  const fs::path cgroups = root / "sys/fs/cgroup";
  return std::min(least_limit(cgroups, cgroup_of(root, ""),
                              [](const fs::path& folder) { return number_in(folder / "memory.max", kUnlimited); }),
                  least_limit(cgroups / "memory", cgroup_of(root, "memory"), [](const fs::path& folder) {
                    return number_in(folder / "memory.limit_in_bytes", kUnlimited);
                  }));
}

int64_t memory_of(const fs::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  while (in >> name && name != "MemTotal:") in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  return in >> kibibytes ? kibibytes * 1024 : 0;
}

int numa_nodes(const fs::path& root) {
  int nodes = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == name.npos) ++nodes;
  }
  return std::max(1, nodes);
}

std::string simd_level() {
  if (is_supported(InstructionSet::avx512)) return "AVX-512";
  if (is_supported(InstructionSet::avx2)) return "AVX2";
#if defined(__x86_64__)
  return "SSE2";
#elif defined(__aarch64__)
  return "NEON";
#else
  return "the compiler's";
#endif
}

}  // namespace

Machine this_machine(const fs::path& root) {
  Machine machine;
  machine.host = node_name();
  machine.cores = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  machine.usable_cores = usable_cores(root);
  machine.numa_nodes = numa_nodes(root);
  machine.simd = simd_level();
  machine.memory = memory_of(root);
  const double limit = cgroup_memory(root);  // version 1 reports 2^63 less one page where there is no limit
  if (limit < static_cast<double>(machine.memory)) machine.memory_limit = static_cast<int64_t>(limit);
  return machine;
}

std::string mpi_library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));  // in Open MPI the package and its builder follow
}

std::string mpi_thread_level() {
  if (!mpi_is_alive()) return "";
  int level = 0;
  MPI_Query_thread(&level);
  return level == MPI_THREAD_SINGLE       ? "single"
         : level == MPI_THREAD_FUNNELED   ? "funneled"
         : level == MPI_THREAD_SERIALIZED ? "serialized"
                                          : "multiple";
}

}  // namespace adjoin
