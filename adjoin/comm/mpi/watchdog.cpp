#include "adjoin/comm/mpi/watchdog.hpp"

#include <algorithm>
#include <utility>

namespace adjoin::mpi {

using diagnosis::Worker;

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr auto kBelieveAfter = std::chrono::seconds(1);

const ProcessEntry* process_of(const PendingTable& table, int world_rank) {
  for (const ProcessEntry& process : table.entries)
    if (process.world_rank.load() == world_rank) return &process;
  return nullptr;
}

const GroupEntry* group_of(const ProcessEntry& process, uint64_t id) {
  for (const GroupEntry& group : process.groups)
    if (group.id.load() == id) return &group;
  return nullptr;
}

bool has_come(const ProcessEntry& process, uint64_t group, uint64_t collective) {
  const GroupEntry* entry = group_of(process, group);
  return entry && entry->collectives.load() >= collective;
}

/// Whether the peer is in a call on the same group that will take this message.
bool is_matched(const ProcessEntry& peer, uint64_t group, int own_rank, const PendingMessage& message) {
  for (const AgentEntry& agent : peer.agents) {
    if (agent.state.load() != AgentEntry::State::calls || agent.group.load() != group) continue;
    if (agent.kind.load() == AgentEntry::Kind::many_messages) return true;  // nobody can say
    if (agent.kind.load() != AgentEntry::Kind::messages) continue;
    for (int i = 0; i < agent.messages_listed.load(); ++i) {
      const PendingMessage& other = agent.messages[i];
      if (!other.is_done.load() && other.peer.load() == own_rank && other.tag.load() == message.tag.load() &&
          other.is_send.load() != message.is_send.load())
        return true;
    }
  }
  return false;
}

std::vector<int> missing_members(const PendingTable& table, const GroupEntry& group, uint64_t collective) {
  std::vector<int> missing;
  for (int i = 0; i < group.size.load(); ++i) {
    const ProcessEntry* process = process_of(table, group.world_ranks[i]);
    if (process && !has_come(*process, group.id.load(), collective)) missing.push_back(group.world_ranks[i]);
  }
  return missing;
}

std::vector<int> missing_peers(const PendingTable& table, const GroupEntry& group, const AgentEntry& agent, int rank) {
  const auto* end = group.world_ranks + group.size.load();
  const auto own_rank = static_cast<int>(std::find(group.world_ranks, end, rank) - group.world_ranks);
  std::vector<int> missing;
  for (int i = 0; i < agent.messages_listed.load(); ++i) {
    const PendingMessage& message = agent.messages[i];
    const int peer = message.peer.load();
    if (message.is_done.load() || peer < 0 || peer >= group.size.load()) continue;
    const ProcessEntry* process = process_of(table, group.world_ranks[peer]);
    if (process && !is_matched(*process, group.id.load(), own_rank, message))
      missing.push_back(group.world_ranks[peer]);
  }
  return missing;
}

std::string name_of(const GroupEntry& group, int world_size) {
  if (group.size.load() == world_size || group.size.load() == 0) return "";
  return " on group {" + diagnosis::ranges_of({group.world_ranks, static_cast<size_t>(group.size.load())}) + "}";
}

Worker worker_of(const PendingTable& table, const ProcessEntry& process, const AgentEntry& agent, int world_size) {
  Worker worker{.rank = process.world_rank.load()};
  if (agent.state.load() == AgentEntry::State::rests) worker.state = Worker::State::rests;
  if (agent.state.load() != AgentEntry::State::calls) return worker;
  worker.call = describe(agent);
  const GroupEntry* group = group_of(process, agent.group.load());
  if (!group || group->size.load() == 0) return worker;
  worker.call += name_of(*group, world_size);
  if (agent.kind.load() == AgentEntry::Kind::collective)
    worker.needs = missing_members(table, *group, agent.collective.load());
  else if (agent.kind.load() == AgentEntry::Kind::messages)
    worker.needs = missing_peers(table, *group, agent, worker.rank);
  if (!worker.needs.empty()) worker.state = Worker::State::waits;
  return worker;
}

}  // namespace

Seen look_at(const PendingTable& table, int world_size) {
  Seen seen;
  const auto add = [&](Worker worker, const AgentEntry* agent) {
    seen.workers.push_back(std::move(worker));
    seen.agents.push_back(agent);
  };
  std::vector<bool> is_here(static_cast<size_t>(world_size));
  for (const ProcessEntry& process : table.entries) {
    const int rank = process.world_rank.load();
    if (rank < 0) continue;
    is_here[static_cast<size_t>(rank)] = true;
    if (process.has_more.load()) add({.rank = rank, .call = "more threads or groups than are watched"}, nullptr);
    for (const AgentEntry& agent : process.agents)
      if (agent.state.load() != AgentEntry::State::free) add(worker_of(table, process, agent, world_size), &agent);
  }
  for (int rank = 0; rank < world_size; ++rank)
    if (!is_here[static_cast<size_t>(rank)]) add({.rank = rank, .call = "on another host"}, nullptr);
  return seen;
}

Watchdog::Watchdog(PendingTable table, int world_size, std::chrono::milliseconds deadline,
                   std::function<void(const std::string&)> report)
    : table_(table), world_size_(world_size), deadline_(deadline), report_(std::move(report)) {
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookEvery, [&] { return ends_; })) {
    lock.unlock();
    if (const std::string text = look(); !text.empty()) return report_(text);
    lock.lock();
  }
}

std::string Watchdog::look() {
  const Clock::time_point now = Clock::now();
  const Seen seen = look_at(table_, world_size_);
  const std::vector<bool> stuck = diagnosis::stuck(seen.workers, world_size_);
  bool is_deadlock = false, is_late = false;
  for (size_t i = 0; i < seen.agents.size(); ++i) {
    if (!seen.agents[i]) continue;
    History& history = histories_[seen.agents[i]];
    const uint64_t version = seen.agents[i]->version.load();
    if (version != history.version) history = {.version = version, .in_call_since = now};
    if (stuck[i] && !history.is_stuck) history.stuck_since = now;
    history.is_stuck = stuck[i];
    is_deadlock |= stuck[i] && now - history.stuck_since >= kBelieveAfter;
    is_late |= seen.agents[i]->state.load() == AgentEntry::State::calls && now - history.in_call_since > deadline_;
  }
  if (is_deadlock) return diagnosis::report("deadlock: these calls can never end", seen.workers, world_size_);
  if (!is_late) return "";
  return diagnosis::report("no progress within the deadline of " + diagnosis::text_of(deadline_), seen.workers,
                           world_size_);
}

}  // namespace adjoin::mpi
