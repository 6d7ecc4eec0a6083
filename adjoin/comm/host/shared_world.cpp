#include "adjoin/comm/host/shared_world.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "adjoin/base/cores.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/base/process_owner.hpp"

namespace adjoin::host {

namespace {

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
    std::erase_if(kept.all, [](const auto& old) { return Group::releases(old.first.get()) == old.second; });
  }
  void* data = memory.get();
  return {data, [memory = std::move(memory), members, process = ProcessOwner()](void* shared) mutable {
            if (!process.is_here()) return memory.reset();
            KeptMemory& kept = kept_memory();
            const std::lock_guard lock(kept.mutex);
            Group::release(shared);
            kept.all.emplace_back(std::move(memory), members);
          }};
}

/// What one process may use: `number` is 0 unless that is fewer than the set has, as a cgroup may allow less.
struct Cores {
  cpu_set_t set;
  int number;
};

/// Where a process's part is, if it has shared memory from an earlier launch.
struct Earlier {
  bool is_there;
  SharedMemory::Place place;
};

}  // namespace

int cores_of_all(Meeting& host) {
  Cores own{};
  CPU_ZERO(&own.set);
  const bool is_known = ::sched_getaffinity(0, sizeof(own.set), &own.set) == 0;
  own.number = usable_cores();
  if (is_known && own.number >= CPU_COUNT(&own.set)) own.number = 0;
  cpu_set_t together;
  CPU_ZERO(&together);
  const std::vector<Cores> all = gather_all(host, own);
  for (const Cores& cores : all) CPU_OR(&together, &together, &cores.set);
  int least = all[0].number > 0 ? all[0].number : CPU_COUNT(&together);
  for (const Cores& cores : all) least = std::min(least, cores.number > 0 ? cores.number : CPU_COUNT(&together));
  return least;
}

std::string share_host_memory(Meeting& host) {
  const int processes = host.size(), own = host.rank();
  if (processes == 1) return "this is the only rank on its host";
  SharedMemory* const current = SharedMemory::current();
  const auto earlier =
      gather_all(host, Earlier{current != nullptr, current ? current->place() : SharedMemory::Place()});
  if (std::ranges::any_of(earlier, &Earlier::is_there))
    return failure_of_all(host, [&] {
      if (!current || !std::ranges::all_of(earlier, &Earlier::is_there))
        throw CommunicationError("an earlier launch in this process had a different number of ranks on this host");
      for (const Earlier& part : earlier) current->attach(part.place, "the memory of an earlier launch");
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

std::shared_ptr<void> memory_of_group(SharedWorld& world, size_t ranks) {
  try {
    return keep_for_members(Group::memory_for(world, ranks), static_cast<int>(ranks));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::shared_ptr<void> memory_at(uintptr_t address) {
  return {reinterpret_cast<void*>(address), [process = ProcessOwner()](void* shared) {
            if (process.is_here()) Group::release(shared);  // the child of a fork does not reach it
          }};
}

std::shared_ptr<Group> make_group(const std::shared_ptr<SharedWorld>& world, Meeting& meeting,
                                  std::vector<int> world_ranks) {
  std::shared_ptr<void> memory;
  if (meeting.rank() == 0) memory = memory_of_group(*world, world_ranks.size());
  const uintptr_t address = gather_all(meeting, reinterpret_cast<uintptr_t>(memory.get()))[0];
  if (address == 0) return nullptr;
  if (!memory) memory = memory_at(address);
  return std::make_shared<Group>(world, std::move(world_ranks), std::move(memory));
}

}  // namespace adjoin::host
