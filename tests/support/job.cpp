#include "tests/support/job.hpp"

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>

namespace adjoin::testing {

Outcome run(const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> chunk;
  while (const size_t n = fread(chunk.data(), 1, chunk.size(), pipe)) outcome.text.append(chunk.data(), n);
  outcome.code = WEXITSTATUS(pclose(pipe));
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

Outcome run_job(int ranks, const std::string& arguments, const std::string& environment) {
  return run(
      "env $(env | grep -oE '^(OMPI|PMIX|PRTE)_[A-Za-z0-9_]*' | sed 's/^/-u /') OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 " +
      environment + " timeout 60 mpirun -n " + std::to_string(ranks) +
      " --bind-to none --oversubscribe " ADJOIN_FAULT_PROGRAM " " + arguments);
}

}  // namespace adjoin::testing
