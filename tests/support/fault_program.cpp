// Fails on one rank in one way, for the tests of what mpirun then does: fault_program RANK invalid|other|everybody.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"

namespace {

void fail_on(int rank, const std::string& kind, const adjoin::Communicator& world) {
  std::vector<float> x(1000, 1.0f);
  world.all_reduce(adjoin::buffer(x));
  if (world.rank() == rank || kind == "everybody") {
    if (kind == "other") throw std::runtime_error("the disk is full");
    throw adjoin::InvalidArgument("expected an even number, got 7");
  }
  for (;;) world.all_reduce(adjoin::buffer(x));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  try {
    adjoin::launch(adjoin::mpi_job_size(),
                   [&](const adjoin::Communicator& world) { fail_on(std::atoi(argv[1]), argv[2], world); });
  } catch (const adjoin::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
  return 0;
}
