#pragma once

#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/shared_memory.hpp"
#include "adjoin/comm/host/group.hpp"
#include "adjoin/comm/host/meeting.hpp"

namespace adjoin::host {

/// Gives processes that begin together memory that they share, all of them or none. Returns why there is none, the same text on
/// all. Called on all.
std::string share_host_memory(Meeting& host);

/// The number of cores of all processes of the host, each of which may be bound to some of them. It is the same on all, as it
/// decides how a group's memory is divided.
int cores_of_all(Meeting& host);

/// Processes of one host that share memory.
class SharedWorld : public World {
 public:
  SharedWorld(int ranks, const Patience& patience, SharedMemory& memory) : World(ranks, patience), memory_(memory) {}

  std::pmr::memory_resource& memory() override { return memory_.resource(); }
  bool is_of_processes() const override { return true; }
  bool reaches(const void* memory) const override { return memory_.reaches(memory); }

 protected:
  SharedMemory& memory_;
};

/// Memory for a group of `ranks` processes, for its first rank to make; 0 where there is no room. It is kept until all members
/// have released it, as they may still use it.
std::shared_ptr<void> memory_of_group(SharedWorld& world, size_t ranks);
/// The same memory on another rank, which releases it.
std::shared_ptr<void> memory_at(uintptr_t address);

/// The group of these processes, in memory that its first rank allocates; nullptr where there is no room for it. Called on all
/// of the meeting.
std::shared_ptr<Group> make_group(const std::shared_ptr<SharedWorld>& world, Meeting& meeting,
                                  std::vector<int> world_ranks);

}  // namespace adjoin::host
