#include "tests/support/programs/tour.hpp"

#include <algorithm>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "tests/support/operations.hpp"

namespace adjoin::testing::programs {

namespace {

void expect_sum(const std::vector<float>& x, int size) {
  const auto sum = static_cast<float>(size);
  if (!std::ranges::all_of(x, [&](float value) { return value == sum; }))
    throw InternalError("a sum of ones is not the number of ranks");
}

void visit(const Communicator& world) {
  const int size = world.size(), next = (world.rank() + 1) % size, before = (world.rank() + size - 1) % size;
  std::vector<float> x(static_cast<size_t>(1200), 1.0f), y(x.size());
  world.all_reduce(buffer(x));
  expect_sum(x, size);
  for (const auto& operation : every_operation()) operation(world, x);
  const auto sending = world.isend(const_buffer(x), next);
  world.recv(buffer(y), before);
  sending->wait();
  const std::vector<int64_t> sizes{100, 2}, strides{3, 1};
  const Message boxes[] = {{Message::Kind::send, next, buffer(x).slice(0, 200), 0, sizes, strides},
                           {Message::Kind::receive, before, buffer(y).slice(0, 200), 0, sizes, strides}};
  world.exchange(boxes);
  const Communicator group = *world.split(0, -world.rank());
  x.assign(x.size(), 1.0f);
  group.stream().all_reduce(buffer(x)).wait();
  expect_sum(x, size);
}

}  // namespace

void run_tour(int kind) {
  const MpiSession session(
      {.host_memory = kind == 1 ? HostMemory::off : HostMemory::automatic, .ranks_of_a_host = kind == 2 ? 2 : 0});
  const auto backend = session.world();
  try {
    visit(Communicator(backend));
  } catch (...) {
    backend->fail(std::current_exception());
  }
}

}  // namespace adjoin::testing::programs
