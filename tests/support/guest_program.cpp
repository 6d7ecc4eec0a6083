// A program that owns MPI and lets adjoin work on two of its three processes: guest_program LEVEL, MPI's thread level. Prints what
// went wrong, and otherwise "guest at home" on the two.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"

namespace {

using adjoin::buffer;
using adjoin::Communicator;

void expect(bool holds, const char* what) {
  if (!holds) std::printf("expected %s\n", what);
}

/// The program's own long message ends only while its sender calls MPI, and the sender waits in adjoin meanwhile.
void send_while_the_sender_waits(const Communicator& world, MPI_Comm own) {
  std::vector<double> data(4 << 20, 1 + world.rank());
  MPI_Request request = MPI_REQUEST_NULL;
  if (world.rank() == 0) MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_DOUBLE, 1, 3, own, &request);
  if (world.rank() == 1) MPI_Recv(data.data(), static_cast<int>(data.size()), MPI_DOUBLE, 0, 3, own, MPI_STATUS_IGNORE);
  world.barrier();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(data.back() == 1, "the program's message");
}

std::string error_of(const Communicator& world, bool sends) {
  std::vector<float> x(8);
  try {
    sends ? world.all_reduce(buffer(x)) : world.broadcast(buffer(x), 0);
    return "";
  } catch (const adjoin::CommunicationError& error) {
    return error.what();
  }
}

void visit(MPI_Comm own) {
  adjoin::MpiOptions options;
  options.communicator = MPI_Comm_c2f(own);
  options.checked = true;
  options.tell = [](const std::string& message) { std::printf("told: %s\n", message.c_str()); };
  // Lives on when MPI is finalised.
  static std::optional<adjoin::MpiSession> session(options);
  static const Communicator world(session->world());
  std::vector<int64_t> sum{world.rank() + 1};
  world.all_reduce(buffer(sum));
  expect(sum[0] == 3, "the sum of two ranks");
  send_while_the_sender_waits(world, own);
  const std::string error = error_of(world, world.rank() == 0), later = error_of(world, true);
  expect(error.find("rank 1: broadcast #") != error.npos, error.c_str());
  expect(later == error, "the same error from each later call");
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, argc > 1 ? std::atoi(argv[1]) : 0, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, -rank, &own);  // ranks 2 and 1 are 0 and 1 of theirs
  int waits = 0;
  if (rank == 0) MPI_Recv(&waits, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank > 0) visit(own);
  if (rank == 1) MPI_Send(&waits, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank > 0) std::printf("guest at home\n");
}
