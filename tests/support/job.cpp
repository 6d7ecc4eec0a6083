#include "tests/support/job.hpp"
#include "paths.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace adjoin::testing {

Outcome run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> chunk;
  for (ssize_t n; (n = read(fileno(pipe), chunk.data(), chunk.size())) > 0;)
    outcome.text.append(chunk.data(), static_cast<size_t>(n));
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

Outcome run_job(int ranks, const std::string& arguments, const std::string& environment) {
  return run_job_of(ADJOIN_FAULT_PROGRAM, ranks, arguments, environment);
}

Outcome run_job_of(const std::string& program, int ranks, const std::string& arguments,
                   const std::string& environment) {
  return run(
      "env $(env | grep -oE '^(OMPI|PMIX|PRTE)_[A-Za-z0-9_]*' | sed 's/^/-u /') OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 " +
      environment + " timeout --kill-after=5 60 mpirun -n " + std::to_string(ranks) +
      " --bind-to none --oversubscribe '" + program + "' " + arguments);
}

}  // namespace adjoin::testing
