#include "tests/support/programs/forks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/contract/host_memory.hpp"

namespace adjoin::testing::programs {

namespace {

/// How the child ended: its exit code, or the negative number of the signal that ended it. A child that hangs is killed.
int end_of(pid_t child) {
  int status = 0;
  for (int i = 0; i < 2000; ++i) {
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return -SIGKILL;
}

void expect_end(pid_t child, int code) {
  const int end = end_of(child);
  if (end != code) throw InternalError("the child ended with " + std::to_string(end));
}

void write_in_both(const Communicator& world) {
  constexpr int64_t kCount = 1 << 20;
  const std::shared_ptr<void> memory = host_memory(kCount * sizeof(float));
  float* x = static_cast<float*>(memory.get());
  std::fill_n(x, kCount, 1.0f);
  int to_child[2];
  if (::pipe(to_child) != 0) throw InternalError("no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool has_waited = ::read(to_child[0], &byte, 1) == 1;  // until the parent has written
    const bool is_as_it_was = std::all_of(x, x + kCount, [](float value) { return value == 1; });
    std::fill_n(x, kCount, 3.0f);
    const auto more = host_memory(100);
    std::_Exit(has_waited && is_as_it_was && more ? 0 : 9);
  }
  std::fill_n(x, kCount, 2.0f);
  if (::write(to_child[1], "x", 1) != 1) throw InternalError("no child");
  expect_end(child, 0);
  world.all_reduce({x, kCount, ElementType::float32});
  const auto sum = 2 * static_cast<float>(world.size());
  if (!std::all_of(x, x + kCount, [&](float value) { return value == sum; }))
    throw InternalError("the parent saw what its child wrote");
}

/// In a child: whether `call` is refused.
bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return std::string(error.what()).find("a child that it made by fork()") != std::string::npos;
  }
  return false;
}

/// The child lets all that its parent has begun go, and tries all that communicates.
void call_in_child(const Communicator& world) {
  const int size = world.size(), next = (world.rank() + 1) % size, before = (world.rank() + size - 1) % size;
  std::vector<float> x(100'000, 1.0f), y(x.size()), sum(x.size(), 1.0f), later(x.size(), 1.0f);
  auto group = world.split(0, 0);
  std::optional<Handle> handle = group->stream().all_reduce(buffer(sum));
  auto sending = world.isend(const_buffer(x), next), summing = group->begin().all_reduce(buffer(later));
  const pid_t child = ::fork();
  if (child == 0) {
    world.abort("a child ends nobody's world");
    const bool all = is_refused([&] { world.all_reduce(buffer(x)); }) && is_refused([&] { group->barrier(); }) &&
                     is_refused([&] { (void)world.split(0, 0); }) &&
                     is_refused([&] { world.for_thread().barrier(); }) &&
                     is_refused([&] { (void)world.isend(const_buffer(x), next); }) &&
                     is_refused([&] { (void)world.stream(); }) && is_refused([&] { handle->wait(); }) &&
                     is_refused([&] { sending->wait(); }) && is_refused([&] { summing->wait(); }) && !summing->done();
    sending.reset();
    summing.reset();
    handle.reset();
    group.reset();
    std::_Exit(all ? 0 : 9);
  }
  expect_end(child, 0);
  world.recv(buffer(y), before);
  sending->wait();
  handle->wait();
  group->barrier();
  if (y[0] != 1 || sum[0] != static_cast<float>(size) || later != sum)
    throw InternalError("wrong results after a fork");
}

}  // namespace

void run_fork(const std::string& kind, const Communicator& world) {
  if (kind == "fork") return write_in_both(world);
  if (kind == "fork-calls") return call_in_child(world);
  const pid_t child = ::fork();
  if (child == 0 && kind == "fork-throws") throw InvalidArgument("expected an even number, got 7");
  if (child == 0) return;
  expect_end(child, kind == "fork-throws" ? 2 : 0);
  world.barrier();
}

}  // namespace adjoin::testing::programs
