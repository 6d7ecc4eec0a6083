#include "bench/contenders.hpp"

#include <mpi.h>

#include <chrono>
#include <functional>
#include <thread>

#include "adjoin/comm/launch.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/lab/measure/collectives.hpp"
#include "adjoin/lab/measure/workload.hpp"

namespace bench {

namespace {

using adjoin::Collective;
using adjoin::Communicator;
using adjoin::measure::Contender;
using adjoin::measure::Effort;
using adjoin::measure::Workload;

constexpr int kRounds = 3;

/// Microseconds of each contender, in all turns of all rounds.
struct Times {
  std::vector<std::vector<double>> of;

  void add(const std::vector<adjoin::measure::Times>& times) {
    of.resize(times.size());
    for (size_t i = 0; i < times.size(); ++i)
      for (const double seconds : times[i].parts.back()) of[i].push_back(1e6 * seconds);
  }
  /// 0 where nothing was measured, such as threads on ranks other than 0.
  double median_of(size_t contender) const {
    return contender < of.size() ? adjoin::measure::median(of[contender]) : 0;
  }
};

/// What a user of MPI would write; blocks are equal, so that no counts are needed.
void call_mpi(Collective collective, const Workload& work) {
  const MPI_Comm world = MPI_COMM_WORLD;
  void *in = work.in().data, *out = work.out().data;
  const int count = static_cast<int>(work.in().count), block = static_cast<int>(work.block());
  switch (collective) {
    case Collective::all_reduce:
      MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::broadcast:
      MPI_Bcast(in, count, MPI_FLOAT, 0, world);
      return;
    case Collective::reduce:
      MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, world);
      return;
    case Collective::gather:
      MPI_Gather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, 0, world);
      return;
    case Collective::scatter:
      MPI_Scatter(in, block, MPI_FLOAT, out, block, MPI_FLOAT, 0, world);
      return;
    case Collective::all_gather:
      MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, world);
      return;
    case Collective::reduce_scatter:
      MPI_Reduce_scatter_block(in, out, block, MPI_FLOAT, MPI_SUM, world);
      return;
    case Collective::all_to_all:
      MPI_Alltoall(in, block, MPI_FLOAT, out, block, MPI_FLOAT, world);
      return;
    case Collective::barrier:
      MPI_Barrier(world);
      return;
  }
}

/// The call. Before a long one its input is written anew, not measured; else the input would be in the caches of its readers.
Contender contender(const Workload& work, const std::function<void()>& call) {
  constexpr int64_t kLong = 64 << 10;
  if (work.in().bytes() < kLong) return {{call}};
  return {{[&work] { work.write(); }, call}};
}

/// Times the operation on threads, and their copying.
void time_threads(int ranks, Collective collective, int64_t bytes, const Effort& effort, Times& times) {
  adjoin::launch_threads(ranks, [&](const Communicator& world) {
    const Workload work(world, bytes);
    const Contender contenders[] = {contender(work, [&] { work.call(collective); }), {{[&] { work.copy(); }}}};
    const auto measured = adjoin::measure::time_in_turns(world, contenders, effort);
    if (world.rank() == 0) times.add(measured);
  });
}

/// Times MPI's own call, the same through the backend, and the operation in memory that the processes share.
void time_processes(const Communicator& over_mpi, const Communicator& in_memory, Collective collective, int64_t bytes,
                    const Effort& effort, Times& times) {
  const Workload mpi(over_mpi, bytes), own(in_memory, bytes);
  const Contender contenders[] = {contender(mpi, [&] { call_mpi(collective, mpi); }),
                                  contender(mpi, [&] { mpi.call(collective); }),
                                  contender(own, [&] { own.call(collective); })};
  times.add(adjoin::measure::time_in_turns(over_mpi, contenders, effort));
}

/// Waits for all ranks without using a core.
void meet_asleep() {
  MPI_Request request;
  int done = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

Row measure_contenders(Collective collective, int64_t bytes, double seconds) {
  const adjoin::MpiSession session, messages({.host_memory = adjoin::HostMemory::off});
  const Communicator world(messages.world()), in_memory(session.world());
  // Turns are long, as a cache keeps a contender's buffers only after several calls, and there are more contenders of processes.
  const Effort effort{.turns = 11, .least_turns = 3, .seconds = seconds / kRounds, .turn_seconds = 5e-3};
  Times threads, processes;
  for (int round = 0; round < kRounds; ++round) {
    meet_asleep();
    if (world.rank() == 0) time_threads(world.size(), collective, bytes, effort, threads);
    meet_asleep();
    time_processes(world, in_memory, collective, bytes, effort, processes);
  }
  return {collective,
          world.size(),
          bytes,
          threads.median_of(0),
          processes.median_of(0),
          processes.median_of(1),
          processes.median_of(2),
          adjoin::measure::limit_us(collective, world.size(), bytes, threads.median_of(1))};
}

}  // namespace bench
