#include "tests/support/programs/odd.hpp"

#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin::testing::programs {

namespace {

/// Stops this process; a shell wakes it.
void stop_for(std::chrono::milliseconds pause) {
  const std::string seconds = std::to_string(std::chrono::duration<double>(pause).count());
  const std::string wake = "(sleep " + seconds + "; kill -CONT " + std::to_string(getpid()) + ") >/dev/null 2>&1 &";
  if (std::system(wake.c_str()) != 0) throw InternalError("no shell to wake a stopped process");
  raise(SIGSTOP);
}

/// All but the last of the ranks after `rank`, which is the root, wait for that one.
void gather_late(int rank, const Communicator& group, std::chrono::milliseconds pause) {
  const int size = group.size(), root = (rank + 1) % size, late = (rank + 2) % size;
  if (group.rank() == late) std::this_thread::sleep_for(pause);
  const std::vector<int64_t> counts(static_cast<size_t>(size), 1);
  const std::vector<int32_t> mine{group.rank()};
  std::vector<int32_t> all(static_cast<size_t>(size));
  group.gather(const_buffer(mine), buffer(all), counts, root);
  for (int r = 0; r < size && group.rank() == root; ++r)
    if (all[static_cast<size_t>(r)] != r) throw InternalError("gather gave a wrong result");
}

}  // namespace

void run_odd(const std::string& kind, int rank, const Communicator& world, std::chrono::milliseconds pause) {
  if (kind == "leaves") return gather_late(rank, world, pause);
  if (kind == "frees") {
    gather_late(rank, *world.split(0, world.rank()), pause);
    return world.barrier();
  }
  world.barrier();
  if (world.rank() == rank) kind == "stopped" ? stop_for(pause) : std::this_thread::sleep_for(pause);
  std::vector<int32_t> sum{world.rank()};
  world.all_reduce(buffer(sum));
  if (sum[0] != world.size() * (world.size() - 1) / 2) throw InternalError("all_reduce gave a wrong result");
}

}  // namespace adjoin::testing::programs
