#include "adjoin/comm/mpi/watchdog.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

namespace adjoin::mpi {

using diagnosis::Worker;

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr auto kBelieveAfter = std::chrono::seconds(1);
constexpr std::chrono::hours kLongest(24 * 365 * 10);  // than anybody waits; clocks can add it

const ProcessEntry* process_of(const PendingTable& table, int world_rank) {
  for (const ProcessEntry& process : table.entries)
    if (process.world_rank.load() == world_rank) return &process;
  return nullptr;
}

/// Whether a debugger or a signal has stopped the process, which then goes on some time.
bool is_stopped(const ProcessEntry& process) {
  std::ifstream in("/proc/" + std::to_string(process.pid.load()) + "/stat");
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(')');  // pid (name) state …
  return name_end != line.npos && name_end + 2 < line.size() &&
         (line[name_end + 2] == 'T' || line[name_end + 2] == 't');
}

/// The ranks of the world that have yet to do what the agent waits for.
std::vector<int> missing_ranks(const PendingTable& table, const GroupEntry& group, const AgentEntry& agent) {
  std::vector<int> missing;
  const auto look = [&](int member, const Awaited& awaited) {
    if (awaited.is_done.load() || member < 0 || member >= group.size.load()) return;
    const ProcessEntry* process = process_of(table, group.world_ranks[member]);
    const GroupEntry* theirs = process ? group_of(*process, group.id.load()) : nullptr;
    if (theirs && posted(*theirs, awaited.key.load()) < awaited.ordinal.load())
      missing.push_back(group.world_ranks[member]);
  };
  for (int i = 0; i < group.size.load(); ++i) look(i, agent.of_all);
  for (int i = 0; i < agent.listed.load(); ++i) look(agent.awaited[i].peer.load(), agent.awaited[i]);
  return missing;
}

Worker worker_of(const PendingTable& table, const ProcessEntry& process, const AgentEntry& agent, int world_size) {
  Worker worker{.rank = process.world_rank.load()};
  if (agent.state.load() == AgentEntry::State::rests) worker.state = Worker::State::rests;
  if (agent.state.load() != AgentEntry::State::calls) return worker;
  worker.call = describe(agent.text);
  const GroupEntry* group = group_of(process, agent.group.load());
  if (!group || group->size.load() == 0) return worker;
  const std::span<const int> members(group->world_ranks, static_cast<size_t>(group->size.load()));
  worker.call += diagnosis::group_name(members, world_size);
  worker.needs = missing_ranks(table, *group, agent);
  if (!worker.needs.empty() && !is_stopped(process)) worker.state = Worker::State::waits;
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
    if (process.agents_left_out.load() > 0) add({.rank = rank, .call = "more threads than are watched"}, nullptr);
    for (const AgentEntry& agent : process.agents)
      if (agent.state.load() != AgentEntry::State::free) add(worker_of(table, process, agent, world_size), &agent);
  }
  for (int rank = 0; rank < world_size; ++rank)
    if (!is_here[static_cast<size_t>(rank)]) add({.rank = rank, .call = "on another host"}, nullptr);
  return seen;
}

Watchdog::Watchdog(PendingTable table, int world_size, std::chrono::milliseconds deadline,
                   std::function<void(const std::string&)> report)
    : table_(table),
      world_size_(world_size),
      deadline_(std::min<std::chrono::milliseconds>(deadline, kLongest)),
      report_(std::move(report)) {
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
