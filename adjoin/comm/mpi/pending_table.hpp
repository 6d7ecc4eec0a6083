#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>

#include "adjoin/base/fixed_text.hpp"
#include "adjoin/comm/contract/call_record.hpp"

/// What the processes of one host write into the memory that they share, so that a watchdog sees which call each is in. Plain
/// data at fixed places: each process writes its own entries, and readers take what they find.
namespace adjoin::mpi {

/// How often a process has begun and ended one kind of call on one group: a collective, or the making of the group, with all
/// ranks; or messages with one peer. Counts only grow, so what a process did before it was stopped or left stays known.
struct Count {
  static constexpr int kAll = -1, kMaking = kCollectives;

  std::atomic<uint64_t> key = 0;  // 0: free
  uint64_t peers_key = 0;         // the key that the peer counts the same call under
  int32_t peer = kAll;            // in the group
  std::atomic<uint64_t> begun = 0, ended = 0;
};

/// `what` is the tag of a message, else a Collective or kMaking.
constexpr uint64_t key_of(int peer, int what, bool is_send = false) {
  return static_cast<uint64_t>(peer + 2) << 32 | static_cast<uint64_t>(what) << 1 | is_send;
}

/// The counts of one process on one group.
struct Counts {
  std::array<Count, 128> of;

  /// The count of this key, made where there is none; nullptr where there is no room.
  Count* make(int peer, uint64_t key, uint64_t peers_key);
  uint64_t begun(uint64_t key) const;
};

/// One group with members on this host. It is kept until all of them have freed it: they may wait for what others have done.
struct GroupEntry {
  static constexpr size_t kMostMembers = 1024;

  std::atomic<uint64_t> id = 0;  // the same on all members; 0: free
  std::atomic<int32_t> size = 0, members_left = 0;
  int32_t world_ranks[kMostMembers] = {};

  std::span<const int> members() const { return {world_ranks, static_cast<size_t>(size.load())}; }
};

/// What one thread of one process is doing.
struct AgentEntry {
  enum class State : int32_t { free, computes, calls, rests };

  std::atomic<State> state = State::free;
  std::atomic<uint64_t> version = 0;  // counts the changes of the state
  std::atomic<int32_t> group = -1;    // of the call: its index in HostEntry::groups
  CallRecord record;

  void change(State to);
};

/// All that one process writes.
struct ProcessEntry {
  static constexpr size_t kMostAgents = 64, kMostGroups = 256;

  std::atomic<int32_t> world_rank = -1;  // -1 until the process has begun
  std::atomic<int32_t> pid = 0;
  std::atomic<bool> lacks_room = false;  // stays true once set: then its calls are not all known
  std::array<AgentEntry, kMostAgents> agents;
  std::array<Counts, kMostGroups> counts;

  /// Takes a free entry; nullptr where there is none.
  AgentEntry* take_agent();
};

/// What belongs to all processes of the host.
struct HostEntry {
  std::atomic<bool> somebody_failed = false, has_warned = false;
  std::atomic<bool> is_locked = false;  // while a process takes a group
  std::atomic<bool> has_ended = false;  // the world of a guest, on this host
  FixedText<4095> reason;               // written before
  std::array<GroupEntry, ProcessEntry::kMostGroups> groups;
};

/// The memory of one host, as this process sees it.
struct PendingTable {
  HostEntry* host = nullptr;
  std::span<ProcessEntry> processes;

  static size_t bytes_for(int processes);
  static PendingTable at(void* memory, int processes);
  /// Initialises the entries; called by one process, before the others read.
  void clear() const;

  /// The entry of a rank of the world; nullptr where it is on another host.
  ProcessEntry* process_of(int world_rank) const;
  /// The entry of this group, made by the first of its members; nullptr where there is no room.
  GroupEntry* take_group(uint64_t id, std::span<const int> world_ranks) const;
  int place_of(const GroupEntry& group) const { return static_cast<int>(&group - host->groups.data()); }
};
/// Called once by each member on this host.
void free_group(GroupEntry& group);

/// A thread that scans a host's table repeatedly and calls `report`, once, about calls that can never end or take longer than
/// the deadline. Every process has one: it scans where all processes before it on the host are stopped or gone.
///
/// Processes write while it reads, and MPI may have moved a message whose owner does not know it yet. So what looks stuck is
/// reported only when it has looked so, unchanged, for a second.
std::jthread watch(PendingTable table, const ProcessEntry& own, int world_size, std::chrono::milliseconds deadline,
                   std::function<void(const std::string&)> report);

}  // namespace adjoin::mpi
