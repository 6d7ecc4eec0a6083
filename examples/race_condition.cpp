// Two threads change one number a million times each: once unsafely, and then in three ways that are right.
//
// usage: race_condition [safe|unsafe]: that part alone
//
// A data race is two accesses to one memory location from two threads, at least one of them a write, neither atomic, and
// neither ordered before the other by a lock, a join or another synchronisation. C++ gives a program with a data race no
// meaning at all: its behaviour is undefined, and "the result is a little off" is only what one often sees.
//
// What one often sees are lost updates. `value = value + 1` is three things: read, add, write. When both threads read 5,
// one writes 6 and the other 4, and one of the two changes is lost. A million additions and a million subtractions then
// seldom end with 0, and each run ends with another number. On one core, or with a compiler that adds the million up in
// advance, the same program may end with 0 each time, and is as wrong: that nobody saw it proves nothing.
// ThreadSanitizer (-fsanitize=thread) looks at the accesses instead of the result, and names both.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"

namespace {

constexpr int64_t kChanges = 1'000'000;

/// Calls `change(+1)` on one thread and `change(-1)` on another, a million times each; both begin together.
template <class Change>
void from_two_threads(const Change& change) {
  std::atomic<int> ready = 0;
  const auto work = [&](int64_t by) {
    ++ready;
    while (ready < 2) continue;  // awake, so that both are running when they begin
    for (int64_t i = 0; i < kChanges; ++i) change(by);
  };
  std::jthread adds(work, +1), subtracts(work, -1);
}

/// The data race. `volatile` makes the compiler carry out every read and write; it makes nothing safe.
void change_unsafely(volatile int64_t& value, int64_t by) {
  value = value + by;
}

int64_t unsafe() {
  volatile int64_t value = 0;
  from_two_threads([&](int64_t by) { change_unsafely(value, by); });
  return value;
}

/// One thread at a time has the lock: each reads what the one before it has written.
int64_t with_a_mutex() {
  int64_t value = 0;
  std::mutex mutex;
  from_two_threads([&](int64_t by) {
    const std::lock_guard lock(mutex);
    value += by;
  });
  return value;
}

/// Read, add and write are one indivisible instruction.
int64_t with_an_atomic() {
  std::atomic<int64_t> value = 0;
  from_two_threads([&](int64_t by) { value += by; });
  return value;
}

/// Each worker changes a number of its own, which nobody else can see, and in the end the numbers are added up: one
/// synchronisation instead of two million. So do all programs that compute on many workers.
int64_t with_a_reduction() {
  int64_t result = 0;
  adjoin::launch_threads(2, [&](const adjoin::Communicator& world) {
    volatile int64_t mine = 0;  // volatile only to have all the million additions carried out, as above
    const int64_t by = world.rank() == 0 ? +1 : -1;
    for (int64_t i = 0; i < kChanges; ++i) mine = mine + by;
    int64_t sum[] = {mine};
    world.all_reduce(adjoin::buffer(sum));
    if (world.rank() == 0) result = sum[0];  // read after launch_threads has joined the workers
  });
  return result;
}

int64_t show(const char* name, int64_t (*run)()) {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t value = run();
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  std::printf("%-12s ends with %8ld after %7.2f ms\n", name, static_cast<long>(value), elapsed.count());
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view part = argc > 1 ? argv[1] : "";
  std::printf("%ld additions and %ld subtractions on one number that begins with 0\n", static_cast<long>(kChanges),
              static_cast<long>(kChanges));
  for (int run = 0; run < 3 && part != "safe"; ++run) show("unsafe", unsafe);
  if (part == "unsafe") return 0;
  const int64_t ends[] = {show("mutex", with_a_mutex), show("atomic", with_an_atomic),
                          show("reduction", with_a_reduction)};
  for (const int64_t end : ends) adjoin::require(end == 0, "a safe part does not end with 0");
}
