#include "adjoin/comm/launch.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/comm/contract/host_memory.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/threads/thread_backend.hpp"

namespace adjoin {

std::chrono::milliseconds LaunchOptions::deadline_from_environment() {
  const char* value = std::getenv("ADJOIN_DEADLINE");
  if (!value || !*value) return std::chrono::minutes(5);
  double seconds = 0;
  const char* end = value + std::strlen(value);
  const auto [rest, error] = std::from_chars(value, end, seconds);
  const std::string expected =
      "the environment variable ADJOIN_DEADLINE: expected a number of seconds of at least 0.001, got '";
  require(error == std::errc() && rest == end && seconds >= 0.001, expected + value + "'");
  const std::chrono::duration<double> wanted(std::min(seconds, 1e9));  // longer than any wait
  return std::chrono::duration_cast<std::chrono::milliseconds>(wanted);
}

bool LaunchOptions::checked_from_environment() {
  const char* value = std::getenv("ADJOIN_CHECKED");
  const std::string_view text = value ? value : "";
  if (text.empty() || text == "0" || text == "false") return false;
  require(text == "1" || text == "true",
          "the environment variable ADJOIN_CHECKED: expected 0, 1, true or false, got '" + std::string(text) + "'");
  return true;
}

namespace {

/// Calls `fn` and returns what it throws. A child that the rank has made by fork() and that comes to the end of `fn` ends there, as what
/// follows belongs to its parent.
std::exception_ptr error_in(const std::function<void(const Communicator& world)>& fn,
                            const std::shared_ptr<Backend>& backend) {
  const ProcessOwner process;
  std::exception_ptr error;
  try {
    const Communicator world(backend);
    fn(world);
    if (process.is_here()) world.require_nothing_begun();
  } catch (...) {
    error = std::current_exception();
  }
  if (process.is_here()) return error;
  if (error) std::fprintf(stderr, "adjoin: in a child made by fork(): %s\n", printable(message_of(error)).c_str());
  std::fflush(nullptr);
  std::_Exit(error ? exit_code_of(error) : 0);
}

}  // namespace

void launch_threads(int ranks, const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options) {
  require(ranks >= 1, "launch: expected at least 1 rank, got " + std::to_string(ranks));
  ranks_begin();
  ThreadWorld world(ranks, options.deadline, options.checked);
  std::promise<bool> all_exist;  // no worker begins before: if the machine refuses a thread, nothing has been done
  const std::shared_future<bool> may_begin = all_exist.get_future().share();
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<size_t>(ranks));
  const auto give_state = carried_state(), wait_for_devices = device_work_so_far();
  std::vector<std::function<void()>> ends(static_cast<size_t>(ranks));  // of what each has enqueued on devices
  const auto work = [&](int rank) {
    if (!may_begin.get()) return;
    give_state();
    const auto backend = world.backend(rank);  // kept until the cause is reported, or the rank would look returned
    const auto on_own_streams = [&](const Communicator& own_world) {
      use_own_streams();
      if (wait_for_devices) wait_for_devices();
      fn(own_world);
    };
    auto error = error_in(on_own_streams, backend);
    try {
      if (!error) ends[static_cast<size_t>(rank)] = device_work_so_far();
    } catch (...) {
      error = std::current_exception();
    }
    if (error) world.world->leave_by(rank, error);
    world.depart(rank);
  };
  try {
    for (int rank = 0; rank < ranks; ++rank) workers.emplace_back(work, rank);
  } catch (const std::exception&) {  // std::system_error, or std::bad_alloc
    all_exist.set_value(false);
    throw InvalidArgument("launch: expected to start " + std::to_string(ranks) +
                          " threads, one for each rank, but this machine could start only " +
                          std::to_string(workers.size()));
  }
  all_exist.set_value(true);
  workers.clear();  // joined
  world.world->throw_cause();
  for (const auto& wait_for_rank : ends)
    if (wait_for_rank) wait_for_rank();
}

void launch_mpi(const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options) {
  MpiSession session({.deadline = options.deadline,
                      .checked = options.checked,
                      .host_memory = options.host_memory,
                      .at_failure = options.at_failure});
  auto backend = session.world();  // until the cause is reported the rank must not look as if it had returned
  // PMI_RANK and similar variables may be left over from another launcher, or belong to another MPI.
  require(backend->size() == mpi_job_size(),
          "launch: the environment variables describe a job of " + std::to_string(mpi_job_size()) +
              " ranks, but MPI reports " + std::to_string(backend->size()) +
              "; start the program with the mpirun of the MPI it was built with, or unset PMI_RANK and PMI_SIZE");
  std::optional<int> exit_code;
  if (const auto error = error_in(fn, backend)) try {
      std::rethrow_exception(error);
    } catch (const RankExit& exit) {
      exit_code = exit.code;
    } catch (...) {
      backend->fail(error);
    }
  backend.reset();
  exit_code = session.leave(exit_code);
  if (exit_code) throw RankExit{*exit_code};
}

void launch(int ranks, const std::function<void(const Communicator& world)>& fn, const LaunchOptions& options) {
  if (!started_by_mpi()) return launch_threads(ranks, fn, options);
  require(ranks == mpi_job_size(), "launch: expected a job of " + std::to_string(ranks) + " ranks, got one of " +
                                       std::to_string(mpi_job_size()) + " from mpirun");
  launch_mpi(fn, options);
}

}  // namespace adjoin
