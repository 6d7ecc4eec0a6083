#pragma once

#include <string>
#include <vector>

#include "adjoin/cli/output.hpp"
#include "adjoin/lab/machine.hpp"
#include "adjoin/lab/self_test.hpp"

namespace adjoin::cli {

/// What `adjoin doctor` knows before it starts workers.
struct Facts {
  Machine machine;
  std::string mpi_library;
  std::string started_by;  // "mpirun", "srun", or "" for neither
  std::string libtorch_version, libtorch_simd, libtorch_devices;
  int libtorch_threads = 0;
  std::string warning;  // about a suspicious start; "" for none
};

/// A host of the job and the ranks on it.
struct Host {
  std::string name;
  std::vector<int> ranks;
  int64_t usable_cores = 0, memory = 0;
  int64_t sharing = 0;   // number of ranks that share memory
  std::string why_none;  // if none share memory, the reason
};

/// What `adjoin doctor` found with the workers.
struct Diagnosis {
  std::string backend;  // "threads" or "mpi"
  int ranks = 0;
  std::string mpi_thread_level;  // "" on threads
  std::vector<Host> hosts;
  std::vector<SelfTestResult> operations;
  double seconds = 0;  // of the self-test
};

Facts facts_of_this_process();

/// The facts come first.
void add(Report& report, const Facts& facts);
void add(Report& report, const Diagnosis& diagnosis);

}  // namespace adjoin::cli
