// Fails on one rank in one way, for the tests of what mpirun then does: fault_program RANK invalid|other|everybody.
// With `pieces` it runs every operation on messages that MPI gets three elements at a time, and fails on a wrong result.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/mpi_backend.hpp"

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

using Numbers = std::vector<int64_t>;

void expect(const char* operation, const Numbers& found, const Numbers& expected) {
  if (found != expected) throw adjoin::InternalError(std::string(operation) + " in pieces gave a wrong result");
}

/// Rank r's block of seven numbers is r, r, …; messages above three elements are cut.
void run_in_pieces() {
  const adjoin::MpiSession session({.largest_piece = 3});
  const adjoin::Communicator world(session.world());
  const int64_t rank = world.rank(), size = world.size(), sum = size * (size - 1) / 2;
  const Numbers mine(7, rank), counts(static_cast<size_t>(size), 7);
  Numbers all, everywhere(7 * static_cast<size_t>(size), rank), whole(everywhere.size());
  for (int64_t r = 0; r < size; ++r) all.insert(all.end(), 7, r);

  Numbers x = mine;
  world.all_reduce(adjoin::buffer(x));
  expect("all_reduce", x, Numbers(7, sum));
  x = mine;
  world.broadcast(adjoin::buffer(x), 1);
  expect("broadcast", x, Numbers(7, 1));
  x = mine;
  world.reduce(adjoin::buffer(x), adjoin::buffer(x), adjoin::Reduction::sum, 0);
  if (rank == 0) expect("reduce", x, Numbers(7, sum));
  world.all_gather(adjoin::const_buffer(mine), adjoin::buffer(whole), counts);
  expect("all_gather", whole, all);
  world.scatter(adjoin::const_buffer(all), adjoin::buffer(x), counts, 1);
  expect("scatter", x, mine);
  world.reduce_scatter(adjoin::const_buffer(everywhere), adjoin::buffer(x), counts);
  expect("reduce_scatter", x, Numbers(7, sum));
  whole.assign(whole.size(), -1);
  world.gather(adjoin::const_buffer(mine), adjoin::buffer(whole), counts, 0);
  if (rank == 0) expect("gather", whole, all);
  world.all_to_all(adjoin::const_buffer(everywhere), counts, adjoin::buffer(whole), counts);
  expect("all_to_all", whole, all);
  const int next = static_cast<int>((rank + 1) % size), before = static_cast<int>((rank + size - 1) % size);
  world.sendrecv(adjoin::const_buffer(mine), next, adjoin::buffer(x), before);
  expect("sendrecv", x, Numbers(7, before));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  try {
    if (argv[2] == std::string("pieces")) return run_in_pieces(), 0;
    adjoin::launch(adjoin::mpi_job_size(),
                   [&](const adjoin::Communicator& world) { fail_on(std::atoi(argv[1]), argv[2], world); });
  } catch (const adjoin::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
  return 0;
}
