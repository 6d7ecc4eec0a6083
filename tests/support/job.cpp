#include "tests/support/job.hpp"
#include "paths.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>

namespace adjoin::testing {

double Outcome::seconds_until(std::string_view part) const {
  const size_t place = text.find(part);
  for (const Arrival& arrival : arrivals)
    if (place != std::string::npos && arrival.characters >= place + part.size()) return arrival.seconds;
  return seconds;
}

Outcome run(const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  const auto now = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> chunk;
  for (ssize_t n; (n = read(fileno(pipe), chunk.data(), chunk.size())) > 0;) {
    outcome.text.append(chunk.data(), static_cast<size_t>(n));
    outcome.arrivals.push_back({now(), outcome.text.size()});
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  outcome.seconds = now();
  return outcome;
}

Outcome run_job(int ranks, const std::string& arguments, const std::string& environment) {
  return run(
      "env $(env | grep -oE '^(OMPI|PMIX|PRTE)_[A-Za-z0-9_]*' | sed 's/^/-u /') OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 " +
      environment + " timeout --kill-after=5 60 mpirun -n " + std::to_string(ranks) +
      " --bind-to none --oversubscribe '" ADJOIN_FAULT_PROGRAM "' " + arguments);
}

}  // namespace adjoin::testing
