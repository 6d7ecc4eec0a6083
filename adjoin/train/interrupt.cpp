#include "adjoin/train/interrupt.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace adjoin::train {
namespace {

std::atomic<bool> noted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");

struct sigaction previous_int, previous_term;

extern "C" void note_interrupt(int signal) {
  if (noted.exchange(true)) ::_exit(128 + signal);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  noted = false;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;  // a read or write under way goes on
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_int);
  ::sigaction(SIGTERM, &action, &previous_term);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &previous_int, nullptr);
  ::sigaction(SIGTERM, &previous_term, nullptr);
}

bool interrupted() noexcept {
  return noted.load(std::memory_order_relaxed);
}

}  // namespace adjoin::train
