// Workers add up what each of them has: 4 threads when started alone, the processes of the job under mpirun.

#include <cstdio>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"

int main() {
  const int workers = adjoin::started_by_mpi() ? adjoin::mpi_job_size() : 4;
  adjoin::launch(workers, [](const adjoin::Communicator& world) {
    std::vector<int64_t> sums{1, world.rank()};
    world.all_reduce(adjoin::buffer(sums));
    const int64_t n = world.size();
    adjoin::require(sums[0] == n && sums[1] == n * (n - 1) / 2, "the sums are wrong");
    if (world.rank() == 0)
      std::printf("%ld workers, whose ranks add up to %ld\n", static_cast<long>(sums[0]), static_cast<long>(sums[1]));
  });
}
