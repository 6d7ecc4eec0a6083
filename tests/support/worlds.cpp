#include "tests/support/worlds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <optional>
#include <string>

#include "adjoin/comm/launch.hpp"

namespace adjoin::testing {

namespace {

std::optional<Communicator>& mpi_world() {
  static std::optional<Communicator> world;
  return world;
}

void run_traced(const Communicator& world, const std::function<void(const Communicator&)>& fn) {
  SCOPED_TRACE("on rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()));
  fn(world);
}

void run_on_first(int size, const std::function<void(const Communicator&)>& fn) {
  const Communicator& job = *mpi_world();
  if (job.rank() < size) {
    std::vector<int> first(static_cast<size_t>(size));
    std::iota(first.begin(), first.end(), 0);
    try {
      run_traced(job.subset(first), fn);
    } catch (const std::exception& e) {
      job.abort(e.what());
    }
  }
  job.barrier();
}

}  // namespace

int hosts_of(const Communicator& world) {
  const char* ranks = std::getenv("ADJOIN_TEST_RANKS_OF_A_HOST");
  if (!world.backend()->spans_hosts() || !ranks) return 1;
  const int of_a_host = std::atoi(ranks);
  return (world.size() + of_a_host - 1) / of_a_host;
}

void use_mpi_world(const Communicator& world) {
  mpi_world() = world;
}
void leave_mpi_world() {
  mpi_world().reset();
}

namespace {

void for_each_world_of(const std::vector<int>& sizes, const std::function<void(const Communicator& world)>& fn,
                       const LaunchOptions& options) {
  if (!mpi_world()) {
    for (const int size : sizes)
      launch_threads(
          size, [&](const Communicator& world) { run_traced(world, fn); }, options);
    return;
  }
  const int job = mpi_world()->size();
  std::vector<int> fitting;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(fitting),
               [&](int size) { return size < job && (size > 2 || job == 2); });
  fitting.push_back(job);
  for (const int size : fitting) run_on_first(size, fn);
}

}  // namespace

void for_each_world(const std::vector<int>& sizes, const std::function<void(const Communicator& world)>& fn) {
  for_each_world_of(sizes, fn, {});
}

void for_each_checked_world(const std::vector<int>& sizes, const std::function<void(const Communicator& world)>& fn) {
  if (!mpi_world() || mpi_world()->checked()) for_each_world_of(sizes, fn, {.checked = true});
}

}  // namespace adjoin::testing
