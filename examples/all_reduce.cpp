// Workers add up what each of them has: threads when started alone, the processes of the job under mpirun.

#include <vector>

#include "examples/support/example.hpp"

using namespace adjoin;

void add_up(const Communicator& world, example::Report& report) {
  std::vector<int64_t> sums{1, world.rank()};
  world.all_reduce(buffer(sums));
  const int64_t n = world.size();
  example::ensure(sums[0] == n && sums[1] == n * (n - 1) / 2, "the sums are wrong");
  report.line("%ld workers, whose ranks add up to %ld", static_cast<long>(sums[0]), static_cast<long>(sums[1]));
  report.value("workers", sums[0]);
  report.value("sum_of_ranks", sums[1]);
}

int main(int argc, char** argv) {
  return example::run(argc, argv, {"Workers add up what each of them has."}, add_up);
}
