#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "adjoin/comm/call.hpp"

/// What the processes of one host write into the memory that they share, so that a watchdog sees what each is in. Plain
/// data at fixed places: a process writes its own entries alone, and readers take what they find.
namespace adjoin::mpi {

/// How often a process has done something that a peer may wait for, by its key: begun a collective, sent to a rank or
/// received from it with a tag, come to a subset. Counts only grow, so what a process did before it was stopped, or left,
/// stays told.
struct Channel {
  std::atomic<uint64_t> key = 0;  // 0: free
  std::atomic<uint64_t> posted = 0;
};

/// What a call has yet to see a peer do: for the `ordinal`th time what has this key.
struct Awaited {
  std::atomic<uint64_t> key = 0;
  std::atomic<uint64_t> ordinal = 0;  // 0: nobody can say
  std::atomic<int32_t> peer = 0;      // in the group
  std::atomic<int32_t> is_done = 0;
};

/// One group as one process knows it. It is kept when the process has freed the group, until all members here have: they
/// may wait for what this one has done its part of.
struct GroupEntry {
  static constexpr int kMostMembers = 1024;
  static constexpr size_t kMostChannels = 128;

  std::atomic<uint64_t> id = 0;   // the same on all members; 0 while the entry was never used
  std::atomic<int32_t> size = 0;  // 0 where the group is too large to be listed
  std::atomic<int32_t> is_freed = 0;
  std::array<Channel, kMostChannels> channels;
  int32_t world_ranks[kMostMembers] = {};
};

/// What a call is described by. It is written and read as it comes: a torn one makes odd words, no wrong accusation.
struct CallText {
  char name[20] = {}, algorithm[20] = {}, file[64] = {};
  ElementType type = ElementType::float32;
  Reduction reduction = Reduction::sum;
  int32_t root = -1, peer = -1, tag = -1, line = 0;
  int64_t count = 0;
  uint64_t sequence = 0;
};

/// What one thread of one process is in.
struct AgentEntry {
  enum class State : int32_t { free, computes, calls, rests };
  static constexpr int kMostAwaited = 64;

  std::atomic<uint64_t> version = 0;  // counts every change of the rest; a call's fields are valid while it stands
  std::atomic<State> state = State::free;
  std::atomic<uint64_t> group = 0;  // the GroupEntry's id
  std::atomic<int32_t> listed = 0;  // of `awaited`
  Awaited of_all;                   // what all members are to do, where it has an ordinal
  Awaited awaited[kMostAwaited];
  CallText text;
};

/// All that one process writes.
struct ProcessEntry {
  static constexpr int kMostAgents = 64, kMostGroups = 256;

  std::atomic<int32_t> world_rank = -1;  // -1 until the process has begun
  std::atomic<int32_t> pid = 0;
  std::atomic<int32_t> agents_left_out = 0;  // for want of room: then nobody knows what it may do
  std::atomic<uint32_t> next_group = 0;      // the entry that was taken longest ago
  std::array<AgentEntry, kMostAgents> agents;
  std::array<GroupEntry, kMostGroups> groups;
};

/// What the processes of a host share beside their entries.
struct HostHeader {
  std::atomic<int32_t> somebody_failed = 0;
};

/// The memory of one host, as this process sees it.
struct PendingTable {
  HostHeader* header = nullptr;
  std::span<ProcessEntry> entries;

  /// The view of memory of that many bytes, which is all zeros before the first use.
  static size_t bytes_for(int processes);
  static PendingTable at(void* memory, int processes);
  /// Makes the entries new; by one process, before the others look.
  void clear() const;
};

/// Takes a free agent of a process; nullptr where there is none, which is noted until it is freed.
AgentEntry* take_agent(ProcessEntry& process);
void free_agent(ProcessEntry& process, AgentEntry* agent);
/// Takes a group entry that nobody here needs any more and fills it; nullptr where there is none.
GroupEntry* take_group(const PendingTable& table, ProcessEntry& process, uint64_t id, std::span<const int> world_ranks);
void free_group(GroupEntry* group);
/// The entry of a process for a group, freed or not; nullptr where it has none.
const GroupEntry* group_of(const ProcessEntry& process, uint64_t id);
/// How often a member has done what has this key.
uint64_t posted(const GroupEntry& group, uint64_t key);

/// Writes a call that begins. Cost: some ten stores and the copies of short names
void write_call(AgentEntry& agent, uint64_t group, const Call& call);
/// That it is a collective: all members come to it.
void write_collective(AgentEntry& agent, GroupEntry& group);
void write_messages(AgentEntry& agent, GroupEntry& group, int own_rank, std::span<const Message> messages);
/// That this process comes to the group of these members.
void write_subset(AgentEntry& agent, GroupEntry& group, std::span<const int> members);
void write_message_done(AgentEntry& agent, size_t message);
void write_end(AgentEntry& agent);
/// It does nothing before another thread of its process has acted; or it does again.
void write_rest(AgentEntry& agent, bool rests);

/// As describe(Call), of what was written.
std::string describe(const CallText& text);

}  // namespace adjoin::mpi
