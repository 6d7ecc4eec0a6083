#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace adjoin {

/// What this process can use of the machine that it runs on.
struct Machine {
  std::string host;      // Slurm's name of the node where Slurm started the process, else the machine's name
  int cores = 1;         // online
  int usable_cores = 1;  // as limited by the process's affinity and its cgroup's quota, at least 1
  int numa_nodes = 1;
  std::string simd;          // the widest vectors that adjoin's reductions use here: "AVX-512", "AVX2", …
  int64_t memory = 0;        // bytes
  int64_t memory_limit = 0;  // bytes that its cgroup allows; 0: no limit
  bool operator==(const Machine&) const = default;
};

/// Reads /proc and /sys below `root`; what the files do not say keeps its default.
Machine this_machine(const std::filesystem::path& root = "/");

/// The MPI library's own text about itself, its first part: "Open MPI v4.1.4".
std::string mpi_library_version();

/// The thread level that MPI was initialised with, such as "multiple"; "" before it is initialised and after it is finalised.
std::string mpi_thread_level();

}  // namespace adjoin
