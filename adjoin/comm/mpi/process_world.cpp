#include "adjoin/comm/mpi/process_world.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

namespace {

/// The number of cores of all processes of the host, each of which may be bound to some of them. It is the same on all, as it
/// decides how a group's memory is divided.
int cores_of_all(MPI_Comm host) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const bool is_known = ::sched_getaffinity(0, sizeof(cores), &cores) == 0;
  const int own = CPU_COUNT(&cores), usable = usable_cores();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof(cores), MPI_BYTE, MPI_BOR, host), "MPI_Allreduce");
  int number = !is_known || usable < own ? usable : CPU_COUNT(&cores);  // fewer where the cgroup allows less
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
  return number;
}

/// Memory of groups that no longer exist in this process. It is kept until all members have let it go, as they may still use
/// it. That may be later than the launch that made the groups, so this object is never destroyed.
struct KeptMemory {
  std::mutex mutex;
  std::vector<std::pair<std::shared_ptr<void>, int>> all;  // with the number of members
};

KeptMemory& kept_memory() {
  static auto& kept = *new KeptMemory;
  return kept;
}

/// The given memory of a group, which is kept as above once this process releases it. Kept memory that all members have
/// released is freed here.
std::shared_ptr<void> keep_for_members(std::shared_ptr<void> memory, int members) {
  {
    KeptMemory& kept = kept_memory();
    const std::lock_guard lock(kept.mutex);
    std::erase_if(kept.all, [](const auto& old) { return host::Group::releases(old.first.get()) == old.second; });
  }
  void* data = memory.get();
  return {data, [memory = std::move(memory), members, process = ProcessOwner()](void* shared) mutable {
            if (!process.is_here()) return memory.reset();
            KeptMemory& kept = kept_memory();
            const std::lock_guard lock(kept.mutex);
            host::Group::release(shared);
            kept.all.emplace_back(std::move(memory), members);
          }};
}

}  // namespace

std::string share_host_memory(MPI_Comm host) {
  const int processes = ranks_in(host), own = rank_in(host);
  if (processes == 1) return "this is the only rank on its host";
  if (SharedMemory::current() != nullptr)  // from an earlier launch; all processes have it, or none
    return failure_of_all(host, [&] {
      if (SharedMemory::current()->processes() != processes)
        throw CommunicationError("an earlier launch in this process had a different number of ranks on this host");
    });
  std::unique_ptr<SharedMemory> memory;
  std::string failure;
  for (const uintptr_t place : SharedMemory::places()) {
    failure = failure_of_all(host, [&] {
      memory = SharedMemory::at(place, processes);
      if (memory) return;
      const std::string why = std::strerror(errno);
      throw CommunicationError("no range of addresses is free in all processes: " + why + " (ulimit -v?)");
    });
    if (failure.empty()) break;
    memory.reset();
  }
  if (!failure.empty()) return failure;
  SharedFile::Address mine;
  failure = failure_of_all(host, [&] { mine = memory->make_part(own); });
  if (!failure.empty()) return failure;
  const std::vector<SharedFile::Address> parts = gather_all(host, mine);
  failure = failure_of_all(host, [&] { memory->attach(parts); });
  if (failure.empty()) SharedMemory::keep(std::move(memory));
  return failure;
}

ProcessWorld::ProcessWorld(const MpiShared& shared, SharedMemory& memory, MPI_Comm host)
    : host::World(shared.world_size, host::Patience::for_ranks(ranks_in(host), cores_of_all(host))),
      shared_(shared),
      memory_(memory),
      place_(rank_in(host)),
      placement_(patience().spins > 0 ? memory.cores() : std::span<std::atomic<int>>()) {}

std::shared_ptr<host::Group> ProcessWorld::make_group(const std::shared_ptr<ProcessWorld>& world, MPI_Comm group,
                                                      std::vector<int> world_ranks) {
  std::shared_ptr<void> memory;
  if (rank_in(group) == 0) try {
      memory =
          keep_for_members(host::Group::memory_for(*world, world_ranks.size()), static_cast<int>(world_ranks.size()));
    } catch (const std::bad_alloc&) {
    }
  auto address = reinterpret_cast<uintptr_t>(memory.get());
  check_mpi(MPI_Bcast(&address, sizeof(address), MPI_BYTE, 0, group), "MPI_Bcast");
  if (address == 0) return nullptr;
  if (!memory)
    memory = {reinterpret_cast<void*>(address), [process = ProcessOwner()](void* shared) {
                if (process.is_here()) host::Group::release(shared);  // the child of a fork does not reach it
              }};
  return std::make_shared<host::Group>(world, std::move(world_ranks), std::move(memory));
}

void ProcessWorld::end(const std::string& diagnosis) noexcept {
  shared_.end_diagnosed(diagnosis);
}

bool ProcessWorld::has_left(int rank) const {
  const ProcessEntry* process = shared_.own() ? shared_.table.process_of(rank) : nullptr;
  return process && std::ranges::all_of(process->agents, [](const AgentEntry& agent) {
           return agent.state.load() == AgentEntry::State::free;
         });
}

}  // namespace adjoin::mpi
