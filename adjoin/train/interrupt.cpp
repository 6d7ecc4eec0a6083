#include "adjoin/train/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iterator>

#include "adjoin/comm/mpi/mpi_backend.hpp"

namespace adjoin::train {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> noted{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not wait for a lock");

std::string printed;  // by the first signal
struct sigaction previous[std::size(kSignals)];

extern "C" void note_interrupt(int signal) {
  const int error = errno;
  int none = 0;
  if (!noted.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
  if (!mpi_job_fails()) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, printed.data(), printed.size());
  }
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard(const std::string& answer) {
  noted = 0;
  // On a terminal the progress bar's line is open, and the terminal has printed ^C in it.
  printed = (!answer.empty() && ::isatty(STDERR_FILENO) ? "\n" : "") + answer;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;  // a running read or write continues
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], &action, &previous[i]);
    if (kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN) ::sigaction(SIGHUP, &previous[i], nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  noted = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
}

bool interrupted() noexcept {
  return noted.load(std::memory_order_relaxed) != 0;
}

int interrupting_signal() noexcept {
  const int signal = noted.load();
  return signal == 0 ? SIGINT : signal;
}

}  // namespace adjoin::train
