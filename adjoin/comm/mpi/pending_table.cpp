#include "adjoin/comm/mpi/pending_table.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>
#include <string_view>

#include "adjoin/base/hash.hpp"

namespace adjoin::mpi {

namespace {

constexpr size_t kHeaderBytes = 64;

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  const size_t n = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), n, to);
  to[n] = 0;
}

/// The name without its folders; the same pointer gives the same name, so the last one is kept.
std::string_view file_of(const char* path) {
  static thread_local const char* last_path = nullptr;
  static thread_local std::string_view last_name;
  if (path == last_path) return last_name;
  last_path = path;
  last_name = path;
  last_name = last_name.substr(last_name.rfind('/') + 1);
  return last_name;
}

/// What a rank posts for a peer; those of subsets have the highest bit.
constexpr uint64_t kSubsetKey = uint64_t{1} << 63;
uint64_t key_of(int peer, int tag, bool is_send) {
  const uint64_t tags = kMaxTag + 1 - kCollectiveTag;
  return 1 + 2 * (static_cast<uint64_t>(peer) * tags + static_cast<uint64_t>(tag - kCollectiveTag)) + is_send;
}

/// Counts one more of what has this key; how many there are now, 0 where there is no room.
uint64_t count(GroupEntry& group, uint64_t key) {
  for (size_t i = 0; i < GroupEntry::kMostChannels; ++i) {
    Channel& channel = group.channels[(key + i) % GroupEntry::kMostChannels];
    uint64_t there = channel.key.load();
    if (there == 0 && channel.key.compare_exchange_strong(there, key)) there = key;
    if (there == key) return channel.posted.fetch_add(1) + 1;
  }
  return 0;
}

void list(AgentEntry& agent, size_t place, int peer, uint64_t key, uint64_t ordinal) {
  if (place >= static_cast<size_t>(AgentEntry::kMostAwaited)) return;
  const auto relaxed = std::memory_order_relaxed;
  Awaited& awaited = agent.awaited[place];
  awaited.peer.store(peer, relaxed);
  awaited.key.store(key, relaxed);
  awaited.ordinal.store(ordinal, relaxed);
  awaited.is_done.store(0, relaxed);
}

/// Of a list that is too long nothing is listed, and the call counts as one that can go on.
void begin_list(AgentEntry& agent, size_t entries) {
  const bool fits = entries <= static_cast<size_t>(AgentEntry::kMostAwaited);
  agent.listed.store(fits ? static_cast<int32_t>(entries) : 0, std::memory_order_relaxed);
  agent.kind.store(AgentEntry::Kind::others, std::memory_order_relaxed);
}

void change(AgentEntry& agent) {
  agent.version.store(agent.version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace

size_t PendingTable::bytes_for(int processes) {
  return kHeaderBytes + static_cast<size_t>(processes) * sizeof(ProcessEntry);
}

PendingTable PendingTable::at(void* memory, int processes) {
  auto* entries = reinterpret_cast<ProcessEntry*>(static_cast<char*>(memory) + kHeaderBytes);
  return {static_cast<HostHeader*>(memory), {entries, static_cast<size_t>(processes)}};
}

void PendingTable::clear() const {
  new (header) HostHeader;
  for (ProcessEntry& entry : entries) new (&entry) ProcessEntry;
}

AgentEntry* take_agent(ProcessEntry& process) {
  for (AgentEntry& agent : process.agents) {
    auto expected = AgentEntry::State::free;
    if (agent.state.compare_exchange_strong(expected, AgentEntry::State::computes)) return &agent;
  }
  process.agents_left_out.fetch_add(1);
  return nullptr;
}

void free_agent(ProcessEntry& process, AgentEntry* agent) {
  if (!agent) {
    process.agents_left_out.fetch_sub(1);
    return;
  }
  agent->state.store(AgentEntry::State::free);
  change(*agent);
}

const GroupEntry* group_of(const ProcessEntry& process, uint64_t id) {
  for (const GroupEntry& group : process.groups)
    if (group.id.load() == id) return &group;
  return nullptr;
}

GroupEntry* take_group(const PendingTable& table, ProcessEntry& process, uint64_t id,
                       std::span<const int> world_ranks) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto is_needed = [&](const GroupEntry& group) {
    const uint64_t old = group.id.load();
    return old != 0 && std::any_of(table.entries.begin(), table.entries.end(), [&](const ProcessEntry& other) {
             const GroupEntry* theirs = group_of(other, old);
             return theirs && !theirs->is_freed.load();
           });
  };
  for (int i = 0; i < ProcessEntry::kMostGroups; ++i) {
    GroupEntry& group = process.groups[process.next_group.fetch_add(1) % ProcessEntry::kMostGroups];
    if (is_needed(group)) continue;
    group.id.store(0);
    group.collectives.store(0);
    group.is_freed.store(0);
    for (Channel& channel : group.channels) channel.key.store(0), channel.posted.store(0);
    const bool fits = world_ranks.size() <= static_cast<size_t>(GroupEntry::kMostMembers);
    if (fits) std::copy(world_ranks.begin(), world_ranks.end(), group.world_ranks);
    group.size.store(fits ? static_cast<int32_t>(world_ranks.size()) : 0);
    group.id.store(id);
    return &group;
  }
  return nullptr;
}

void free_group(GroupEntry* group) {
  if (group) group->is_freed.store(1);
}

uint64_t posted(const GroupEntry& group, uint64_t key) {
  for (size_t i = 0; i < GroupEntry::kMostChannels; ++i) {
    const Channel& channel = group.channels[(key + i) % GroupEntry::kMostChannels];
    const uint64_t there = channel.key.load();
    if (there == key) return channel.posted.load();
    if (there == 0) return 0;
  }
  return std::numeric_limits<uint64_t>::max();  // there was no room: nobody can say
}

void write_call(AgentEntry& agent, uint64_t group, const Operation& operation) {
  const auto relaxed = std::memory_order_relaxed;
  put(agent.name, operation.name);
  put(agent.algorithm, operation.algorithm);
  put(agent.reduction, operation.reduction);
  put(agent.file, file_of(operation.where.file_name()));
  agent.line.store(static_cast<int32_t>(operation.where.line()), relaxed);
  agent.count.store(operation.count, relaxed);
  agent.sequence.store(operation.sequence, relaxed);
  agent.type.store(static_cast<int32_t>(operation.type), relaxed);
  agent.root.store(operation.root, relaxed);
  agent.peer.store(operation.peer, relaxed);
  agent.tag.store(operation.tag, relaxed);
  agent.group.store(group, relaxed);
  agent.kind.store(AgentEntry::Kind::nothing, relaxed);
  agent.state.store(AgentEntry::State::calls, relaxed);
  change(agent);
}

void write_collective(AgentEntry& agent, GroupEntry& group) {
  agent.collective.store(group.collectives.fetch_add(1) + 1, std::memory_order_relaxed);
  agent.kind.store(AgentEntry::Kind::collective, std::memory_order_relaxed);
  change(agent);
}

void write_messages(AgentEntry& agent, GroupEntry& group, int own_rank, std::span<const Message> messages) {
  begin_list(agent, messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool is_send = message.kind == Message::Kind::send;
    const uint64_t ordinal = count(group, key_of(message.peer, message.tag, is_send));
    list(agent, i, message.peer, key_of(own_rank, message.tag, !is_send), ordinal);
  }
  change(agent);
}

void write_subset(AgentEntry& agent, GroupEntry& group, std::span<const int> members) {
  const uint64_t key = hash_of(members) | kSubsetKey;
  const uint64_t ordinal = count(group, key);
  begin_list(agent, members.size());
  for (size_t i = 0; i < members.size(); ++i) list(agent, i, members[i], key, ordinal);
  change(agent);
}

void write_message_done(AgentEntry& agent, size_t message) {
  if (message >= static_cast<size_t>(agent.listed.load(std::memory_order_relaxed))) return;
  agent.awaited[message].is_done.store(1, std::memory_order_relaxed);
  change(agent);
}

void write_end(AgentEntry& agent) {
  agent.kind.store(AgentEntry::Kind::nothing, std::memory_order_relaxed);
  agent.state.store(AgentEntry::State::computes, std::memory_order_relaxed);
  change(agent);
}

void write_rest(AgentEntry& agent, bool rests) {
  agent.state.store(rests ? AgentEntry::State::rests : AgentEntry::State::computes, std::memory_order_relaxed);
  change(agent);
}

std::string describe(const AgentEntry& agent) {
  Operation operation{.name = agent.name,
                      .count = agent.count.load(),
                      .type = static_cast<ElementType>(agent.type.load()),
                      .root = agent.root.load(),
                      .peer = agent.peer.load(),
                      .tag = agent.tag.load(),
                      .reduction = agent.reduction,
                      .algorithm = agent.algorithm,
                      .sequence = agent.sequence.load()};
  return describe(operation, std::string(agent.file) + ":" + std::to_string(agent.line.load()));
}

}  // namespace adjoin::mpi
