#include "adjoin/store/messages.hpp"

#include <unistd.h>

#include <atomic>
#include <iostream>

#include "adjoin/base/utf8.hpp"
#include "adjoin/comm/launch.hpp"

namespace adjoin::train {

namespace {

std::atomic<int> silences{0};

}  // namespace

Silence::Silence() {
  ++silences;
}
Silence::~Silence() {
  --silences;
}

void say(const std::string& line) {
  if (mpi_job_rank() == 0 && silences == 0) std::cout << printable(line) + "\n" << std::flush;
}

void warn(const std::string& what) {
  if (mpi_job_rank() == 0) std::cerr << "adjoin: warning: " + printable(what) + "\n" << std::flush;
}

void note(const std::string& message) {
  const std::string end_of_bar = ::isatty(STDERR_FILENO) ? "\n" : "";
  std::cerr << end_of_bar + "adjoin: " + printable(message) + "\n" << std::flush;
}

}  // namespace adjoin::train
