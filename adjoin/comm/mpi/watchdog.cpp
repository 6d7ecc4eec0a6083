#include "adjoin/comm/mpi/pending_table.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "adjoin/base/processes.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"

namespace adjoin::mpi {

using diagnosis::Worker;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr auto kTakeOverWithin = std::chrono::milliseconds(500);
constexpr auto kBelieveAfter = std::chrono::seconds(1);

/// Whether none of the processes before this one on the host can look.
bool is_first_that_runs(const PendingTable& table, const ProcessEntry& own) {
  for (const ProcessEntry& process : table.processes) {
    if (&process == &own) break;
    if (state_of_process(process.pid.load()) == ProcessState::runs) return false;
  }
  return true;
}

/// The ranks of the world that have not yet begun what the process has begun on a group and not ended.
std::vector<int> missing_ranks(const PendingTable& table, const ProcessEntry& process, size_t place) {
  const std::span<const int> members = table.host->groups[place].members();
  std::vector<int> missing;
  for (const Count& count : process.counts[place].of) {
    if (count.begun.load() <= count.ended.load()) continue;
    for (size_t member = 0; member < members.size(); ++member) {
      if (count.peer != Count::kAll && count.peer != static_cast<int>(member)) continue;
      const ProcessEntry* there = table.process_of(members[member]);
      if (there && there->counts[place].begun(count.peers_key) < count.begun.load()) missing.push_back(members[member]);
    }
  }
  return missing;
}

Worker worker_of(const PendingTable& table, const ProcessEntry& process, const AgentEntry& agent, int world_size) {
  Worker worker{.rank = process.world_rank.load()};
  if (agent.state.load() == AgentEntry::State::rests) worker.state = Worker::State::rests;
  if (agent.state.load() != AgentEntry::State::calls) return worker;
  worker.call = describe(agent.record);
  if (agent.group.load() < 0) return worker;
  const auto place = static_cast<size_t>(agent.group.load());
  worker.call += diagnosis::group_name(table.host->groups[place].members(), world_size);
  worker.needs = missing_ranks(table, process, place);
  if (!worker.needs.empty() && state_of_process(process.pid.load()) != ProcessState::stopped)
    worker.state = Worker::State::waits;
  return worker;
}

/// What all threads of all ranks are doing, as the table shows it. Ranks on other hosts, and those without room in the table,
/// count as running.
struct Seen {
  std::vector<Worker> workers;
  std::vector<const AgentEntry*> agents;  // of each worker; nullptr for one that stands for more than the table shows

  void add(Worker worker, const AgentEntry* agent) {
    workers.push_back(std::move(worker));
    agents.push_back(agent);
  }
};

Seen look_at(const PendingTable& table, int world_size) {
  Seen seen;
  for (int rank = 0; rank < world_size; ++rank) {
    const ProcessEntry* process = table.process_of(rank);
    if (!process || process->lacks_room.load())
      seen.add({.rank = rank, .call = process ? "more calls than can be watched" : "on another host"}, nullptr);
    if (!process) continue;
    for (const AgentEntry& agent : process->agents)
      if (agent.state.load() != AgentEntry::State::free)
        seen.add(worker_of(table, *process, agent, world_size), &agent);
  }
  return seen;
}

/// How long an agent has been in its call, and how long it has looked stuck there.
struct History {
  uint64_t version = 0;
  Clock::time_point in_call_since = {}, stuck_since = {};
};
using Histories = std::map<const AgentEntry*, History>;

/// The text to report; "" where there is nothing to report.
std::string look(const PendingTable& table, int world_size, std::chrono::milliseconds deadline, Histories& histories) {
  const Clock::time_point now = Clock::now();
  const Seen seen = look_at(table, world_size);
  const std::vector<bool> stuck = diagnosis::stuck(seen.workers, world_size);
  bool is_deadlock = false, is_late = false;
  for (size_t i = 0; i < seen.agents.size(); ++i) {
    if (!seen.agents[i]) continue;
    History& history = histories[seen.agents[i]];
    const uint64_t version = seen.agents[i]->version.load();
    if (version != history.version) history = {version, now, now};
    if (!stuck[i]) history.stuck_since = now;
    is_deadlock |= now - history.stuck_since >= kBelieveAfter;
    is_late |= seen.agents[i]->state.load() == AgentEntry::State::calls && now - history.in_call_since > deadline;
  }
  if (is_deadlock) return diagnosis::report("deadlock: these calls can never end", seen.workers, world_size);
  if (!is_late) return "";
  return diagnosis::report("no progress within the deadline of " + diagnosis::text_of(deadline), seen.workers,
                           world_size);
}

}  // namespace

std::jthread watch(PendingTable table, const ProcessEntry& own, int world_size, std::chrono::milliseconds deadline,
                   std::function<void(const std::string&)> report) {
  deadline = std::min<std::chrono::milliseconds>(deadline, diagnosis::kLongest);
  return std::jthread([=, &own](const std::stop_token& end) {
    Histories histories;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any ends;
    bool looks = is_first_that_runs(table, own);
    while (!ends.wait_for(lock, end, looks ? kLookEvery : kTakeOverWithin, [&] { return end.stop_requested(); })) {
      if (looks = is_first_that_runs(table, own); !looks) {
        histories.clear();
        continue;
      }
      if (const std::string text = look(table, world_size, deadline, histories); !text.empty()) return report(text);
    }
  });
}

}  // namespace adjoin::mpi
