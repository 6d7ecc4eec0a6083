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

constexpr auto kRelaxed = std::memory_order_relaxed;

/// Of collectives, of messages by peer, tag and direction, and of subsets by their members, with the highest bit.
constexpr uint64_t kCollectiveKey = 1;
constexpr uint64_t key_of(int peer, int tag, bool is_send) {
  return 2 + 2 * (static_cast<uint64_t>(peer) * (kMaxTag + 1) + static_cast<uint64_t>(tag)) + is_send;
}
uint64_t key_of_subset(std::span<const int> members) {
  return hash_of(members) | uint64_t{1} << 63;
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

void write(Awaited& awaited, int peer, uint64_t key, uint64_t ordinal) {
  awaited.peer.store(peer, kRelaxed);
  awaited.key.store(key, kRelaxed);
  awaited.ordinal.store(ordinal, kRelaxed);
  awaited.is_done.store(0, kRelaxed);
}

/// Lists `entries` things that the call waits for; `write_nth(i, awaited)` says what. Of too many nothing is listed, and
/// the call counts as one that can go on.
template <class WriteNth>
void list(AgentEntry& agent, size_t entries, WriteNth write_nth) {
  Awaited spare;
  const bool fits = entries <= static_cast<size_t>(AgentEntry::kMostAwaited);
  for (size_t i = 0; i < entries; ++i) write_nth(i, fits ? agent.awaited[i] : spare);
  agent.listed.store(fits ? static_cast<int32_t>(entries) : 0, kRelaxed);
}

void change(AgentEntry& agent) {
  agent.version.store(agent.version.load(kRelaxed) + 1, std::memory_order_release);
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
    group.is_freed.store(0);
    for (Channel& channel : group.channels) channel.key.store(0), channel.posted.store(0);
    group.channels[kCollectiveKey].key.store(kCollectiveKey);  // for which there is always room
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

void write_call(AgentEntry& agent, uint64_t group, const Call& call) {
  const ConstBuffer elements = call.elements();
  const Message* message = call.message();
  CallText& text = agent.text;
  put(text.name, call.name);
  put(text.algorithm, call.algorithm);
  const std::string_view path = call.where.file_name();
  put(text.file, path.substr(path.size() - std::min(path.size(), sizeof(text.file) - 1)));
  text.type = elements.type;
  text.reduction = call.reduction;
  text.root = call.root;
  text.peer = message ? message->peer : -1;
  text.tag = message ? message->tag : -1;
  text.line = static_cast<int32_t>(call.where.line());
  text.count = elements.count;
  text.sequence = call.sequence;
  agent.group.store(group, kRelaxed);
  agent.state.store(AgentEntry::State::calls, kRelaxed);
  change(agent);
}

void write_collective(AgentEntry& agent, GroupEntry& group) {
  write(agent.of_all, /*peer=*/-1, kCollectiveKey, count(group, kCollectiveKey));
  change(agent);
}

void write_messages(AgentEntry& agent, GroupEntry& group, int own_rank, std::span<const Message> messages) {
  list(agent, messages.size(), [&](size_t i, Awaited& awaited) {
    const Message& message = messages[i];
    const uint64_t ordinal = count(group, key_of(message.peer, message.tag, message.is_send()));
    write(awaited, message.peer, key_of(own_rank, message.tag, !message.is_send()), ordinal);
  });
  change(agent);
}

void write_subset(AgentEntry& agent, GroupEntry& group, std::span<const int> members) {
  const uint64_t key = key_of_subset(members), ordinal = count(group, key);
  list(agent, members.size(), [&](size_t i, Awaited& awaited) { write(awaited, members[i], key, ordinal); });
  change(agent);
}

void write_message_done(AgentEntry& agent, size_t message) {
  if (message >= static_cast<size_t>(agent.listed.load(kRelaxed))) return;
  agent.awaited[message].is_done.store(1, kRelaxed);
  change(agent);
}

void write_end(AgentEntry& agent) {
  agent.of_all.ordinal.store(0, kRelaxed);
  agent.listed.store(0, kRelaxed);
  write_rest(agent, /*rests=*/false);
}

void write_rest(AgentEntry& agent, bool rests) {
  agent.state.store(rests ? AgentEntry::State::rests : AgentEntry::State::computes, kRelaxed);
  change(agent);
}

std::string describe(const CallText& text) {
  const std::string_view name = text.name;
  const Buffer elements{nullptr, text.count, text.type};
  const Message message{name == "recv" ? Message::Kind::receive : Message::Kind::send, text.peer, elements, text.tag};
  Call call{.collective = collective_named(name),
            .name = name,
            .in = elements,
            .out = elements,
            .reduction = text.reduction,
            .root = text.root,
            .algorithm = text.algorithm,
            .sequence = text.sequence};
  if (text.peer >= 0 || name == "exchange") call.messages = {&message, 1};
  const std::string_view path = text.file;
  return describe(call, std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(text.line));
}

}  // namespace adjoin::mpi
