#include "adjoin/comm/mpi/process_world.hpp"

#include <algorithm>
#include <string_view>

#include "adjoin/comm/mpi/shared.hpp"

namespace adjoin::mpi {

ProcessWorld::ProcessWorld(const MpiShared& shared, SharedMemory& memory, host::Meeting& host)
    : SharedWorld(shared.world_size, host::Patience::for_ranks(host.size(), host::cores_of_all(host)), memory),
      shared_(shared),
      place_(host.rank()),
      placement_(patience().spins > 0 ? memory.cores() : std::span<std::atomic<int>>()) {
  if (shared.is_guest() && shared.own()) aborted_ = &shared.table.host->has_ended;
}

void ProcessWorld::end(const std::string& diagnosis) noexcept {
  shared_.end_diagnosed(diagnosis);
}

std::string ProcessWorld::reason_of_end() const {
  return std::string(std::string_view(shared_.table.host->reason));
}

bool ProcessWorld::has_left(int rank) const {
  const ProcessEntry* process = shared_.own() ? shared_.table.process_of(rank) : nullptr;
  return process && std::ranges::all_of(process->agents, [](const AgentEntry& agent) {
           return agent.state.load() == AgentEntry::State::free;
         });
}

}  // namespace adjoin::mpi
