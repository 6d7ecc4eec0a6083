#include "adjoin/comm/mpi/pending_table.hpp"

#include <algorithm>
#include <new>
#include <thread>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/shared_file.hpp"

namespace adjoin::mpi {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kHostBytes = SharedFile::kHead + (sizeof(HostEntry) + 63) / 64 * 64;

}  // namespace

Count* Counts::make(int peer, uint64_t key, uint64_t peers_key) {
  for (size_t i = 0, first = mix(key); i < of.size(); ++i) {
    Count& count = of[(first + i) % of.size()];
    uint64_t there = count.key.load(kRelaxed);
    if (there == key) return &count;
    if (there != 0 || !count.key.compare_exchange_strong(there, key)) continue;
    count.peer = peer;
    count.peers_key = peers_key;
    return &count;
  }
  return nullptr;
}

uint64_t Counts::begun(uint64_t key) const {
  const auto found = std::ranges::find_if(of, [&](const Count& count) { return count.key == key; });
  return found == of.end() ? 0 : found->begun.load();
}

void AgentEntry::change(State to) {
  state.store(to, kRelaxed);
  version.store(version.load(kRelaxed) + 1, std::memory_order_release);
}

AgentEntry* ProcessEntry::take_agent() {
  for (AgentEntry& agent : agents) {
    auto expected = AgentEntry::State::free;
    if (agent.state.compare_exchange_strong(expected, AgentEntry::State::computes)) return &agent;
  }
  return nullptr;
}

size_t PendingTable::bytes_for(int processes) {
  return kHostBytes + static_cast<size_t>(processes) * sizeof(ProcessEntry);
}

PendingTable PendingTable::at(void* memory, int processes) {
  auto* begin = static_cast<char*>(memory);
  auto* first = reinterpret_cast<ProcessEntry*>(begin + kHostBytes);
  return {reinterpret_cast<HostEntry*>(begin + SharedFile::kHead), {first, static_cast<size_t>(processes)}};
}

void PendingTable::clear() const {
  new (host) HostEntry;
  for (ProcessEntry& process : processes) new (&process) ProcessEntry;
}

ProcessEntry* PendingTable::process_of(int world_rank) const {
  const auto found = std::ranges::find_if(processes, [&](const auto& p) { return p.world_rank == world_rank; });
  return found == processes.end() ? nullptr : &*found;
}

GroupEntry* PendingTable::take_group(uint64_t id, std::span<const int> world_ranks) const {
  while (host->is_locked.exchange(true)) std::this_thread::yield();
  const auto entry_with = [&](uint64_t wanted) {
    const auto found = std::ranges::find_if(host->groups, [&](const auto& group) { return group.id == wanted; });
    return found == host->groups.end() ? nullptr : &*found;
  };
  GroupEntry* group = entry_with(id);
  if (!group && world_ranks.size() <= GroupEntry::kMostMembers && (group = entry_with(0))) {
    int32_t members_here = 0;
    for (ProcessEntry& process : processes) {
      new (&process.counts[static_cast<size_t>(place_of(*group))]) Counts;
      members_here += static_cast<int32_t>(std::ranges::count(world_ranks, process.world_rank.load()));
    }
    std::ranges::copy(world_ranks, group->world_ranks);
    group->size.store(static_cast<int32_t>(world_ranks.size()));
    group->members_left.store(members_here);
    group->id.store(id);
  }
  host->is_locked.store(false);
  return group;
}

void free_group(GroupEntry& group) {
  if (group.members_left.fetch_sub(1) == 1) group.id.store(0);
}

}  // namespace adjoin::mpi
