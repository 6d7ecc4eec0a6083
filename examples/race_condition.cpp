// Two threads change one number a million times each: once unsafely, and then in three ways that are right.
//
// A data race is two accesses to one memory location from two threads, at least one of them a write, neither atomic, and
// neither ordered before the other by a lock, a join or another synchronisation. C++ gives a program with a data race no
// meaning at all: its behaviour is undefined, and "the result is a little off" is only what one often sees.
//
// What one often sees are lost updates. `value = value + 1` is three things: read, add, write. When both threads read 5,
// one writes 6 and the other 4, and one of the two changes is lost. A million additions and a million subtractions then
// seldom end with 0, and each run ends with another number. On one core, or with a compiler that adds the million up in
// advance, the same program may end with 0 each time, and is still wrong: that nobody saw it proves nothing.
// ThreadSanitizer (-fsanitize=thread) looks at the accesses instead of the result, and names both.

#include <CLI/App.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "examples/support/example.hpp"

using adjoin::example::Options;
using adjoin::example::Report;

namespace {

constexpr int64_t kChanges = 1'000'000;

/// Calls `change(+1)` on every other thread and `change(-1)` on the rest, a million times each; all begin together.
template <class Change>
void from_threads(int threads, const Change& change) {
  std::atomic<int> ready = 0;
  const auto work = [&](int64_t by) {
    ++ready;
    while (ready < threads) continue;  // spins, so that all threads run when they begin
    for (int64_t i = 0; i < kChanges; ++i) change(by);
  };
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(work, i % 2 == 0 ? +1 : -1);
}

/// The data race. `volatile` makes the compiler carry out every read and write; it makes nothing safe. Not inlined, so that a
/// sanitizer's report names it.
[[gnu::noinline]] void change_unsafely(volatile int64_t& value, int64_t by) {
  value = value + by;
}

int64_t unsafe(int threads) {
  volatile int64_t value = 0;
  from_threads(threads, [&](int64_t by) { change_unsafely(value, by); });
  return value;
}

/// One thread at a time has the lock: each reads what the one before it has written.
int64_t with_a_mutex(int threads) {
  int64_t value = 0;
  std::mutex mutex;
  from_threads(threads, [&](int64_t by) {
    const std::lock_guard lock(mutex);
    value += by;
  });
  return value;
}

/// Read, add and write are one indivisible instruction.
int64_t with_an_atomic(int threads) {
  std::atomic<int64_t> value = 0;
  from_threads(threads, [&](int64_t by) { value += by; });
  return value;
}

/// Each worker changes its own number, which nobody else can see, and at the end the numbers are added up: one
/// synchronisation instead of two million. All programs that compute on many workers do this.
int64_t with_a_reduction(int threads) {
  int64_t result = 0;
  adjoin::launch_threads(threads, [&](const adjoin::Communicator& world) {
    volatile int64_t mine = 0;  // volatile only so that all million additions are carried out, as above
    const int64_t by = world.rank() % 2 == 0 ? +1 : -1;
    for (int64_t i = 0; i < kChanges; ++i) mine = mine + by;
    int64_t sum[] = {mine};
    world.all_reduce(adjoin::buffer(sum));
    if (world.rank() == 0) result = sum[0];  // read after launch_threads has joined the workers
  });
  return result;
}

struct Way {
  const char* name;
  int64_t (*run)(int threads);
};

int64_t show(const Way& way, int threads, const Report& report) {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t value = way.run(threads);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  report.line("%-12s ends with %8ld after %7.2f ms", way.name, static_cast<long>(value), elapsed.count());
  return value;
}

void run_part(const std::string& part, int threads, Report& report) {
  adjoin::require(part.empty() || part == "safe" || part == "unsafe", "expected safe or unsafe, got " + part);
  adjoin::require(threads % 2 == 0,
                  "--ranks is odd, expected an even number: half of the threads add and half subtract");
  const long changes = kChanges * threads / 2;
  report.line("%ld additions and %ld subtractions on one number that begins with 0", changes, changes);
  for (int run = 1; run <= 3 && part != "safe"; ++run)
    report.value("unsafe_" + std::to_string(run), show({"unsafe", unsafe}, threads, report));
  if (part == "unsafe") return;
  for (const Way& way : {Way{"mutex", with_a_mutex}, {"atomic", with_an_atomic}, {"reduction", with_a_reduction}}) {
    const int64_t end = show(way, threads, report);
    report.value(way.name, end);
    if (end != 0) throw adjoin::InternalError("a safe part does not end with 0");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string part;
  const adjoin::example::About about{
      "Threads change one number unsafely, and then in three ways that are right.", 2, /*threads_only=*/true,
      [&](CLI::App& app) { app.add_option("part", part, "safe or unsafe: that part alone [both]"); }};
  return run_with(argc, argv, about,
                  [&](const Options& options, Report& report) { run_part(part, options.ranks, report); });
}
