// Goes wrong on purpose, for the tests of what mpirun and the library then say: fault_program RANK KIND [OPERATION].
// With `random` it runs the wrong program of the seed OPERATION. With `late`, `stopped`, `leaves` and `frees` it is right,
// though it does not look so for OPERATION milliseconds. With `pieces` it runs every operation on messages that MPI gets
// three elements at a time, and fails on a wrong result. With the environment's ADJOIN_TEST_FLIGHT, the folder of a run, each
// rank keeps its flight record there.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/lab/flight_reading.hpp"
#include "adjoin/lab/flight_record.hpp"
#include "tests/support/operations.hpp"
#include "tests/support/programs/begun.hpp"
#include "tests/support/programs/forks.hpp"
#include "tests/support/programs/odd.hpp"
#include "tests/support/programs/run.hpp"
#include "tests/support/programs/tour.hpp"
#include "tests/support/programs/wrong.hpp"

namespace {

thread_local int64_t allocations = 0;  // by this thread: the watchdog allocates as it looks
}  // namespace

#ifndef __SANITIZE_THREAD__  // which has its own
void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif

namespace {

using adjoin::buffer;
using adjoin::Communicator;

/// Ranks 0 and 1 come to two groups in opposite order; the others compute.
void wait_in_two_groups(const Communicator& world) {
  if (world.rank() > 1) return std::this_thread::sleep_for(std::chrono::minutes(1));
  const std::vector<int> pair{0, 1};
  const Communicator one = world.subset(pair), two = world.subset(pair);
  (world.rank() == 0 ? one : two).barrier();
  (world.rank() == 0 ? two : one).barrier();
}

void run_wrong_program(int seed, const Communicator& world) {
  using namespace adjoin::testing::programs;
  const WrongProgram program = wrong_program(static_cast<uint64_t>(seed), world.size());
  world.barrier();
  if (world.rank() == 0) std::fprintf(stderr, "begins\n");
  run(program.of(world.rank()), world, [](const std::string&) {});  // after the change results mean nothing
}

/// An exception that is caught ends a handle whose operation the others join later. No fault.
void drop_a_handle(int culprit, const Communicator& world) {
  const adjoin::AsyncCommunicator async(world);
  if (world.rank() != culprit) std::this_thread::sleep_for(std::chrono::seconds(1));
  try {
    std::vector<double> x(100'000, 1.0);
    const adjoin::Handle handle = async.all_reduce(buffer(x));
    if (world.rank() == culprit) throw std::runtime_error("caught");
    handle.wait();
  } catch (const std::runtime_error&) {
  }
  world.barrier();
}

void receive_as_another_type(const Communicator& world) {
  std::vector<float> sent(4);
  std::vector<int32_t> got(4);
  if (world.rank() == 0) world.send(buffer(sent), 1);
  if (world.rank() == 1) world.recv(buffer(got), 0);
  world.barrier();
}

void gather_other_counts(int culprit, const Communicator& world) {
  const std::vector<int64_t> counts =
      world.rank() == culprit ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{2, 1, 3};
  std::vector<float> all(6), mine(static_cast<size_t>(counts[static_cast<size_t>(world.rank())]));
  world.all_gather(buffer(mine), buffer(all), counts);
}

void deadlock_after_many_groups(const Communicator& world) {
  std::vector<Communicator> groups;
  for (int i = 0; i < 70; ++i) groups.push_back(*world.split(0, 0));
  std::vector<float> x(4);
  groups.back().recv(buffer(x), (world.rank() + 1) % world.size());
}

/// More groups than are watched: a rank that is late is not accused, and a receive that nobody sends to waits on.
void make_too_many_groups(int culprit, const Communicator& world) {
  std::vector<Communicator> groups;
  for (int i = 0; i < 260; ++i) groups.push_back(*world.split(0, 0));
  if (world.rank() == culprit) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  groups.back().barrier();
  std::vector<float> x(4);
  if (world.rank() != culprit) groups.back().recv(buffer(x), culprit);
  groups.back().barrier();
}

void miss_a_subset(int culprit, const Communicator& world) {
  std::vector<float> x(4);
  if (world.rank() == culprit) return world.recv(buffer(x), (culprit + 1) % world.size());
  const std::vector<int> all{0, 1, 2};
  (void)world.subset(all);
}

void send_more_than_expected(const Communicator& world) {
  if (world.rank() > 1) return;
  std::vector<int32_t> sent(world.rank() == 0 ? 500 : 5), got(5);
  world.sendrecv(buffer(sent), 1 - world.rank(), buffer(got), 1 - world.rank());
}

/// Two threads of each rank make groups at once. No fault.
void make_groups_on_two_threads(const Communicator& world) {
  std::vector<int> all(static_cast<size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> first{0};
  const Communicator a = world.subset(all), b = world.subset(all).for_thread();
  const Communicator alone = world.rank() == 0 ? a.subset(first) : Communicator();
  std::jthread other([&] {
    for (int i = 0; i < 20; ++i) (void)b.subset(all);
  });
  for (int i = 0; i < 20; ++i) {
    if (world.rank() == 0) (void)alone.subset(first);
    (void)a.subset(all);
  }
}

void run_without_allocating(const Communicator& world);

void fail_on(int culprit, const std::string& kind, int operation, const Communicator& world) {
  if (kind == "random") return run_wrong_program(operation, world);
  for (const char* odd : {"late", "stopped", "leaves", "frees"})
    if (kind == odd)
      return adjoin::testing::programs::run_odd(kind, culprit, world, std::chrono::milliseconds(operation));
  std::vector<float> x(1200, 1.0f);
  world.all_reduce(buffer(x));
  if (kind.starts_with("begun")) return adjoin::testing::programs::run_begun(kind, culprit, world);
  const adjoin::Buffer part = buffer(x).slice(0, 1000);
  const bool is_culprit = world.rank() == culprit;
  if (kind == "circle") return world.recv(part, (world.rank() + 1) % world.size(), 5);
  if (kind == "groups") return wait_in_two_groups(world);
  if (kind == "fine" || kind == "twice") return;
  if (kind == "all-exit" || (kind == "exit-code" && is_culprit)) throw adjoin::RankExit{world.rank() + 3};
  if (kind == "allocations") return run_without_allocating(world);
  if (kind == "handle") return drop_a_handle(culprit, world);
  if (kind == "counts") return gather_other_counts(culprit, world);
  if (kind.starts_with("fork")) return adjoin::testing::programs::run_fork(kind, world);
  if (kind == "types") return receive_as_another_type(world);
  if (kind == "many-groups") return deadlock_after_many_groups(world);
  if (kind == "longer") return send_more_than_expected(world);
  if (kind == "makers") return make_groups_on_two_threads(world);
  if (kind == "subset") return miss_a_subset(culprit, world);
  if (kind == "crowd") return make_too_many_groups(culprit, world);
  if (kind == "in-operation") {
    if (is_culprit) throw adjoin::InvalidArgument("the tank is empty");
    for (;;) adjoin::testing::every_operation()[static_cast<size_t>(operation)](world, x);
  }
  if (is_culprit || kind == "everybody") {
    if (kind == "other") throw std::runtime_error("the disk is full");
    if (kind == "kill") raise(SIGKILL);
    if (kind == "exit") std::_Exit(0);
    if (kind == "return") return;
    if (kind == "compute") std::this_thread::sleep_for(std::chrono::minutes(1));
    if (kind == "mismatch") return world.broadcast(part, 0);
    throw adjoin::InvalidArgument("expected an even number, got 7");
  }
  for (;;) world.all_reduce(part);
}

using Numbers = std::vector<int64_t>;

void expect(const char* operation, const Numbers& found, const Numbers& expected) {
  if (found != expected) throw adjoin::InternalError(std::string(operation) + " in pieces gave a wrong result");
}

/// Rank r's block of seven numbers is r, r, …; messages above three elements are cut.
void run_in_pieces() {
  const adjoin::MpiSession session({.largest_piece = 3, .host_memory = adjoin::HostMemory::off});
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

  // A column of two of each row, sent to a row of two of each column.
  Numbers rows(14), columns(14, -1);
  std::iota(rows.begin(), rows.end(), 100 * rank);
  const Numbers sizes{7, 2}, of_rows{2, 1}, of_columns{1, 7};
  const adjoin::Message both[] = {
      {adjoin::Message::Kind::send, next, adjoin::buffer(rows), 0, sizes, of_rows},
      {adjoin::Message::Kind::receive, before, adjoin::buffer(columns), 0, sizes, of_columns}};
  world.exchange(both);
  Numbers expected;
  for (int64_t i = 0; i < 14; ++i) expected.push_back(100 * before + i % 7 * 2 + i / 7);
  expect("exchange", columns, expected);
}

/// Only the culprit's word is another. No fault, unless the others insist.
void launch_with_another_word(int culprit) {
  adjoin::LaunchOptions options;
  if (adjoin::mpi_job_rank() == culprit) options.host_memory = adjoin::HostMemory::off;
  adjoin::launch_mpi([](const Communicator& world) { world.barrier(); }, options);
}

/// Of four ranks, two a host: what rank 0 sends to the other host must arrive while it waits in memory for rank 1, which waits for
/// the other host. No fault.
void send_while_waiting() {
  const adjoin::MpiSession session({.ranks_of_a_host = 2});
  const Communicator world(session.world());
  const std::vector<int> ranks = world.rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
  const Communicator here = world.subset(ranks);
  std::vector<float> x(1 << 20), got(1 << 20);
  if (world.rank() == 0) {
    const auto sending = world.isend(buffer(x), 2);
    here.barrier();
  }
  if (world.rank() == 1) world.recv(buffer(got), 3), here.barrier();
  if (world.rank() == 2) world.recv(buffer(got), 0), here.barrier();
  if (world.rank() == 3) here.barrier(), world.send(buffer(x), 1);
}

/// Some ranks let a launch's groups go during the next one, whose memory that must not change. No fault.
void let_groups_go_late(int culprit) {
  const adjoin::MpiSession until_the_end;
  std::vector<Communicator> groups;
  adjoin::launch_mpi([&](const Communicator& world) {
    for (int i = 0; i < 20; ++i) {
      const Communicator group = *world.split(0, 0);
      if (world.rank() != culprit) groups.push_back(group);
    }
  });
  adjoin::launch_mpi([&](const Communicator& world) {
    constexpr size_t kBytes = 5000;
    std::vector<std::shared_ptr<void>> blocks(1000);
    for (auto& block : blocks) std::memset((block = adjoin::host_memory(kBytes)).get(), 'x', kBytes);
    world.barrier();
    groups.clear();
    world.barrier();
    for (const auto& block : blocks)
      if (std::string_view(static_cast<char*>(block.get()), kBytes) != std::string(kBytes, 'x'))
        throw adjoin::InternalError("memory has changed");
  });
}

/// Makes every call twice, and fails where the second allocates. What MPI itself takes is not counted.
void run_without_allocating(const Communicator& world) {
  const auto size = static_cast<size_t>(world.size());
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  const int64_t rank = world.rank();
  const Numbers even(size, 7);
  Numbers uneven(size, 7), mine(7), all(7 * size), other(7 * size);
  uneven[0] = 6;
  const int64_t own = rank == 0 ? 6 : 7;
  const Numbers box_sizes{3, 2}, box_strides{2, 1};
  const adjoin::Message messages[] = {
      {adjoin::Message::Kind::send, next, adjoin::buffer(mine).slice(0, 6), 0, box_sizes, box_strides},
      {adjoin::Message::Kind::receive, before, adjoin::buffer(other).slice(0, 6), 0, box_sizes, box_strides}};
  const auto in = adjoin::buffer(mine), out = adjoin::buffer(all), to = adjoin::buffer(other);
  const auto own_in = in.slice(0, own), out_uneven = out.slice(0, out.count - 1), to_uneven = to.slice(0, to.count - 1);
  Numbers most(size, 7);  // rank 1 copies for so long that the others fall asleep before the end of the call
  most[1] = 4 << 20;
  Numbers long_in(static_cast<size_t>(most[static_cast<size_t>(rank)])),
      long_out(rank == 0 ? (4 << 20) + 7 * (size - 1) : 0);
  const std::function<void()> calls[] = {[&] { world.barrier(); },
                                         [&] { world.broadcast(in, 1); },
                                         [&] { world.reduce(in, in, adjoin::Reduction::sum, 0); },
                                         [&] { world.all_reduce(in); },
                                         [&] { world.gather(own_in, to_uneven, uneven, 0); },
                                         [&] { world.scatter(out_uneven, own_in, uneven, 1); },
                                         [&] { world.all_gather(in, to, even); },
                                         [&] { world.all_gather(own_in, to_uneven, uneven); },
                                         [&] { world.reduce_scatter(out_uneven, own_in, uneven); },
                                         [&] { world.reduce_scatter(out, out.slice(7 * rank, 7), even); },
                                         [&] { world.all_to_all(out, even, to, even); },
                                         [&] { world.gather(buffer(long_in), buffer(long_out), most, 0); },
                                         [&] { world.sendrecv(in, next, to.slice(0, 7), before); },
                                         [&] { world.exchange(messages); }};
  // Where memory that the processes do not share is copied, a box is, which allocates.
  const size_t tried = std::size(calls) - (adjoin::host_memory_use().ranks > 0 ? 1 : 0);
  for (size_t i = 0; i < tried; ++i) {
    calls[i]();
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the others fall asleep meanwhile
    const int64_t so_far = allocations;
    calls[i]();
    if (allocations != so_far) throw adjoin::InternalError("call " + std::to_string(i) + " allocated");
  }
}

/// As fail_on, recorded.
void fail_in_flight(const std::filesystem::path& run, const std::function<void(const Communicator& world)>& fail) {
  using namespace adjoin::lab;
  const int rank = adjoin::mpi_job_rank();
  const auto record = std::make_shared<FlightRecord>(rank, adjoin::mpi_job_size());
  record->keep_in(run / kFlightFolder / flight_file_name(rank));
  adjoin::LaunchOptions options;
  options.at_failure = [&](const std::string& failure) {
    record->note_failure(failure);
    return "rank " + std::to_string(rank) + " has noted it";
  };
  adjoin::launch(
      adjoin::mpi_job_size(), [&](const Communicator& world) { fail(world.observed_by(record)); }, options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  const std::string kind = argv[2];
  const int operation = argc > 3 ? std::atoi(argv[3]) : 0;
  try {
    if (kind == "pieces") return run_in_pieces(), 0;
    if (kind == "tour") return adjoin::testing::programs::run_tour(operation), 0;
    if (kind == "send-while-waiting") return send_while_waiting(), 0;
    if (kind == "lengths")
      return adjoin::testing::programs::run_between_hosts([&](const Communicator& world) {
               adjoin::testing::programs::exchange_other_lengths(operation, std::atoi(argv[4]), std::atoi(argv[1]) != 0,
                                                                 world);
             }),
             0;
    if (kind == "hosts")
      return adjoin::testing::programs::run_between_hosts(
                 [&](const Communicator& world) { fail_on(std::atoi(argv[1]), argv[3], 0, world); }),
             0;
    if (kind == "late-groups") return let_groups_go_late(std::atoi(argv[1])), 0;
    if (kind == "words") return launch_with_another_word(std::atoi(argv[1])), 0;
    const auto fail = [&](const Communicator& world) { fail_on(std::atoi(argv[1]), kind, operation, world); };
    if (const char* run = std::getenv("ADJOIN_TEST_FLIGHT")) return fail_in_flight(run, fail), 0;
    adjoin::launch(adjoin::mpi_job_size(), fail);
    if (kind == "twice") adjoin::launch(adjoin::mpi_job_size(), [](const Communicator&) {});
  } catch (const adjoin::RankExit& exit) {
    return exit.code;
  } catch (const adjoin::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
  return 0;
}
