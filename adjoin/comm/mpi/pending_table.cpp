#include "adjoin/comm/mpi/pending_table.hpp"

#include <algorithm>
#include <new>
#include <string_view>

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
  process.has_more.store(1);
  return nullptr;
}

void free_agent(AgentEntry* agent) {
  if (!agent) return;
  agent->state.store(AgentEntry::State::free);
  change(*agent);
}

GroupEntry* take_group(ProcessEntry& process, uint64_t id, std::span<const int> world_ranks) {
  for (GroupEntry& group : process.groups) {
    uint64_t expected = 0;
    if (!group.id.compare_exchange_strong(expected, id)) continue;
    group.collectives.store(0);
    const bool fits = world_ranks.size() <= static_cast<size_t>(GroupEntry::kMostMembers);
    if (fits) std::copy(world_ranks.begin(), world_ranks.end(), group.world_ranks);
    group.size.store(fits ? static_cast<int32_t>(world_ranks.size()) : 0);
    return &group;
  }
  process.has_more.store(1);
  return nullptr;
}

void free_group(GroupEntry* group) {
  if (!group) return;
  group->size.store(0);
  group->id.store(0);
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

void write_messages(AgentEntry& agent, std::span<const Message> messages) {
  const auto relaxed = std::memory_order_relaxed;
  const bool fits = messages.size() <= static_cast<size_t>(AgentEntry::kMostMessages);
  for (size_t i = 0; fits && i < messages.size(); ++i) {
    PendingMessage& listed = agent.messages[i];
    listed.peer.store(messages[i].peer, relaxed);
    listed.tag.store(messages[i].tag, relaxed);
    listed.is_send.store(messages[i].kind == Message::Kind::send, relaxed);
    listed.is_done.store(0, relaxed);
  }
  agent.messages_listed.store(fits ? static_cast<int32_t>(messages.size()) : 0, relaxed);
  agent.kind.store(fits ? AgentEntry::Kind::messages : AgentEntry::Kind::many_messages, relaxed);
  change(agent);
}

void write_message_done(AgentEntry& agent, size_t message) {
  if (message >= static_cast<size_t>(agent.messages_listed.load(std::memory_order_relaxed))) return;
  agent.messages[message].is_done.store(1, std::memory_order_relaxed);
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
