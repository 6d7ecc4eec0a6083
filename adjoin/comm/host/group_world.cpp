#include "adjoin/comm/host/group_world.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/contract/diagnosis.hpp"
#include "adjoin/comm/contract/host_memory.hpp"

namespace adjoin::host {

namespace {

using Clock = std::chrono::steady_clock;
using diagnosis::Worker;
using State = AgentNotice::State;

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr auto kBelieveAfter = std::chrono::milliseconds(600);
constexpr uint64_t kLeastBeats = 3;

/// What a process says of itself when a group is made.
struct Introduction {
  FixedText<48> host;
  SharedMemory::Place place;
  int64_t pid = 0, start = 0;
};

std::mutex worlds_mutex;
std::vector<std::weak_ptr<GroupWorld>>& worlds() {  // of this process
  static auto& all = *new std::vector<std::weak_ptr<GroupWorld>>;
  return all;
}

void make_memory(int world_rank) {
  GroupWorld::begin_to_share();
  if (SharedMemory::current()->is_copy())
    throw CommunicationError(
        "the process that made this one by fork() has groups; make groups before, or spawn processes");
  ProcessNotice& own = ProcessNotice::own();
  own.start.store(start_of_process(id_of_process()));
  own.world_rank.store(world_rank);
  own.pid.store(id_of_process());
}

}  // namespace

void GroupWorld::begin_to_share() {
  if (host_memory_from_environment() == HostMemory::off)
    throw CommunicationError("the environment variable ADJOIN_HOST_MEMORY turns it off");
  if (SharedMemory::current()) return;
  SharedMemory::keep(SharedMemory::alone());
  ranks_begin();
}

std::shared_ptr<Group> GroupWorld::meet(Meeting& meeting, std::vector<int> world_ranks, int world_size) {
  std::string failure = failure_of_all(meeting, [&] { make_memory(world_ranks[static_cast<size_t>(meeting.rank())]); });
  if (!failure.empty()) throw NoSharedMemory(failure);
  SharedMemory& memory = *SharedMemory::current();
  const ProcessNotice& own = ProcessNotice::own();
  const auto all = gather_all(meeting, Introduction{id_of_machine(), memory.place(), own.pid.load(), own.start.load()});
  failure = failure_of_all(meeting, [&] {
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const std::string what = "the memory of rank " + std::to_string(world_ranks[rank]);
      if (std::string_view(all[rank].host) != all[0].host)
        throw CommunicationError(what + " is on another host than that of rank " + std::to_string(world_ranks[0]));
      memory.attach(all[rank].place, what);
    }
  });
  if (!failure.empty()) throw NoSharedMemory(failure);
  const auto patience = Patience::for_ranks(meeting.size(), cores_of_all(meeting));
  const std::shared_ptr<GroupWorld> world(new GroupWorld(world_size, patience, memory));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    world->members_[world_ranks[rank]] = {all[rank].place, all[rank].pid, all[rank].start};
    world->rank_of_[world_ranks[rank]] = static_cast<int>(rank);
  }
  auto group = make_group(world, meeting, std::move(world_ranks));
  if (!group) throw NoSharedMemory("there is no room for a group in the memory that the processes share");
  world->group_ = group;
  world->ending_ = &group->ending();
  world->aborted_ = &group->ending().has_ended;
  if (patience.spins > 0) world->placement_ = ThreadCores(group->cores());
  const std::lock_guard lock(worlds_mutex);
  std::erase_if(worlds(), [](const auto& other) { return other.expired(); });
  worlds().push_back(world);
  return group;
}

std::string GroupWorld::who_died(std::span<const int> world_ranks) {
  const std::lock_guard lock(worlds_mutex);
  for (const auto& weak : worlds())
    if (const auto world = weak.lock())
      for (const int rank : world_ranks)
        if (world->members_.contains(rank) && world->has_died(rank)) return world->text_of_end(rank);
  return "";
}

std::string GroupWorld::text_of_end(int world_rank) const {
  return "rank " + std::to_string(world_rank) + " (process " + std::to_string(member(world_rank).pid) + ") has " +
         (has_left(world_rank) ? "returned" : "died");
}

void GroupWorld::end(const std::string& diagnosis) noexcept {
  const auto give_up = Clock::now() + std::chrono::seconds(1);
  uint32_t writer = 0;
  while (!ending_->has_ended.load()) {
    if (ending_->writer.compare_exchange_strong(writer, id_of_process())) {
      ending_->text = diagnosis;
      ending_->has_ended.store(true);
    } else if (Clock::now() < give_up) {
      writer = 0;  // the other one is about to end it
      std::this_thread::yield();
    }
  }
  if (const auto group = group_.lock()) group->wake_all();
}

bool GroupWorld::has_left(int world_rank) const {
  const auto group = group_.lock();
  return (group && group->has_left(rank_of_.at(world_rank))) ||
         ProcessNotice::of(memory_, static_cast<int>(member(world_rank).place.own)).has_left.load();
}

bool GroupWorld::has_died(int world_rank) const {
  const Member& process = member(world_rank);
  if (state_of_process(process.pid) == ProcessState::gone) return true;
  const int64_t start = start_of_process(process.pid);
  return start != 0 && start != process.start;  // the number is that of another process now
}

void GroupWorld::leave_host() noexcept {
  const SharedMemory* memory = SharedMemory::current();
  if (memory && !memory->is_copy()) ProcessNotice::own().has_left.store(true);
}

/// What a rank that waits finds when it looks around.
class GroupWaiter::Look {
 public:
  Look(GroupWorld& world, const Waiting& waiting)
      : world_(world), waiting_(waiting), shows_(State::waits), text_(waiting.describe()) {
    shows_.notice().call = text_;
    shows_.notice().needs_any.store(waiting.needs_any);
    note_needs();
  }

  /// Looks around; where it finds that the call can never end, gives the reason.
  std::string why_never(bool is_interruptible) {
    note_needs();
    shows_.notice().beats.fetch_add(1);
    for (const auto& [rank, _] : world_.members_) {
      const bool is_needed = needs_.empty() || std::ranges::count(needs_, rank) > 0;
      if (!is_needed || !world_.has_died(rank)) continue;
      if (waiting_.is_over()) return "";
      if (world_.has_left(rank) && (needs_.empty() || waiting_.needs_any)) continue;
      return report(world_.text_of_end(rank));
    }
    if (!is_interruptible) return "";
    for (const int rank : waiting_.needs_any ? std::vector<int>() : needs_)
      if (world_.has_left(rank) && !waiting_.is_over())
        return report("rank " + std::to_string(rank) + " has returned, and this rank waits for it");
    if (!is_deadlock() || waiting_.is_over()) return "";
    const std::string text = report("deadlock: these calls can never end");
    // Those that wait in other groups find the same meanwhile, and not only that this rank has gone.
    std::this_thread::sleep_for(2 * kLookEvery);
    return text;
  }

  /// The headline and what each rank of the group is doing.
  std::string report(const std::string& headline) const {
    std::vector<diagnosis::Line> lines;
    for (const auto& [rank, member] : world_.members_) {
      const ProcessNotice& process = notice_of(static_cast<int>(member.place.own));
      bool is_shown = world_.has_died(rank);
      if (is_shown) lines.push_back({rank, world_.has_left(rank) ? "has returned" : "has died"});
      for (const AgentNotice& agent : process.agents) {
        if (agent.state.load() != State::waits || world_.has_died(rank)) continue;
        is_shown = true;
        lines.push_back({rank, std::string(std::string_view(agent.call)) + waits_for(agent)});
      }
      if (!is_shown) lines.push_back({rank, world_.has_left(rank) ? "has returned" : "computes"});
    }
    return headline + diagnosis::list_of(lines);
  }
  const std::string& text() const { return text_; }

 private:
  const ProcessNotice& notice_of(int process) const { return ProcessNotice::of(world_.memory_, process); }

  void note_needs() {
    needs_ = waiting_.needs();
    std::array<uint64_t, SharedMemory::kMostProcesses / 64> bits{};
    for (const int rank : needs_) {
      const auto part = static_cast<size_t>(world_.member(rank).place.own);
      bits[part / 64] |= uint64_t{1} << (part % 64);
    }
    for (size_t i = 0; i < bits.size(); ++i) shows_.notice().needs[i].store(bits[i]);
  }

  static std::vector<int> parts_of(const AgentNotice& agent) {
    std::vector<int> parts;
    for (int part = 0; part < SharedMemory::kMostProcesses; ++part)
      if (agent.needs[static_cast<size_t>(part / 64)].load() >> (part % 64) & 1) parts.push_back(part);
    return parts;
  }

  std::string waits_for(const AgentNotice& agent) const {
    std::vector<int> ranks;
    for (const int part : parts_of(agent))
      if (world_.memory_.has_attached(part)) ranks.push_back(notice_of(part).world_rank.load());
    std::ranges::sort(ranks);
    const bool is_choice = agent.needs_any.load() && ranks.size() > 1;
    return ranks.empty() ? "" : (is_choice ? ", waits for any of " : ", waits for ") + ranks_text(ranks);
  }

  /// Whether this thread has been among threads that can never go on for a while, in which each of them has looked.
  bool is_deadlock() {
    std::vector<Worker> workers;
    std::vector<const AgentNotice*> agents;
    std::set<int> seen;
    std::vector<int> open;
    for (const auto& [rank, member] : world_.members_) open.push_back(static_cast<int>(member.place.own));
    while (!open.empty()) {
      const int part = open.back();
      open.pop_back();
      if (seen.insert(part).second) add_process(part, workers, agents, open);
    }
    const std::vector<bool> stuck = diagnosis::stuck(workers, world_.memory_.processes());
    std::map<const AgentNotice*, uint64_t> now;
    bool am_stuck = false;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (!stuck[i]) continue;
      now[agents[i]] = agents[i]->version.load();
      am_stuck |= agents[i] == &shows_.notice();
    }
    if (!am_stuck || now != versions_) {
      versions_ = std::move(now);
      since_ = Clock::now();
      beats_.clear();
      for (const auto& [agent, version] : versions_) beats_[agent] = agent->beats.load();
      return false;
    }
    return Clock::now() - since_ >= kBelieveAfter && std::ranges::all_of(beats_, [](const auto& seen_before) {
             return seen_before.first->beats.load() >= seen_before.second + kLeastBeats;
           });
  }

  void add_process(int part, std::vector<Worker>& workers, std::vector<const AgentNotice*>& agents,
                   std::vector<int>& open) const {
    const auto add = [&](Worker::State state, const AgentNotice* agent, std::vector<int> needs = {}) {
      const bool needs_any = state == Worker::State::waits && agent->needs_any.load();
      workers.push_back({.rank = part, .state = state, .needs = std::move(needs), .needs_any = needs_any});
      agents.push_back(agent);
    };
    if (!world_.memory_.has_attached(part)) return add(Worker::State::runs, nullptr);
    const ProcessNotice& process = notice_of(part);
    const ProcessState state = state_of_process(process.pid.load());
    if (process.has_left.load() || state == ProcessState::gone) return;
    bool has_agents = false;
    for (const AgentNotice& agent : process.agents) {
      const State shown = agent.state.load();
      if (shown == State::free) continue;
      has_agents = true;
      if (shown != State::waits) {
        add(shown == State::rests ? Worker::State::rests : Worker::State::runs, &agent);
        continue;
      }
      const std::vector<int> needs = parts_of(agent);
      open.insert(open.end(), needs.begin(), needs.end());
      add(Worker::State::waits, &agent, needs);
    }
    if (!has_agents || process.lacks_room.load() || state == ProcessState::stopped) add(Worker::State::runs, nullptr);
  }

  GroupWorld& world_;
  const Waiting& waiting_;
  Shows shows_;
  const std::string text_;
  std::vector<int> needs_;
  std::map<const AgentNotice*, uint64_t> versions_, beats_;  // of the threads that looked stuck
  Clock::time_point since_;
};

void GroupWaiter::sleep(Parking& parking, const Waiting& waiting) {
  const auto is_over = [&] { return waiting.is_over() || world_.aborted(); };
  if (is_over()) return;
  const auto timeout = timeout_.load();
  const Clock::time_point give_up = Clock::now() + std::min<std::chrono::milliseconds>(timeout, diagnosis::kLongest);
  Look look(world_, waiting);
  while (!parking.sleep(is_over, std::min(Clock::now() + kLookEvery, give_up))) {
    std::string reason = look.why_never(/*is_interruptible=*/true);
    if (reason.empty() && Clock::now() >= give_up)
      reason = look.report(look.text() + ": Timed out after " + diagnosis::text_of(timeout));
    if (!reason.empty()) return world_.end(reason);
  }
}

void GroupWaiter::sleep_through(Parking& parking, const Waiting& waiting) {
  if (waiting.is_over()) return;
  Look look(world_, waiting);
  while (!parking.sleep(waiting.is_over, Clock::now() + kLookEvery)) {
    const std::string reason = look.why_never(/*is_interruptible=*/false);
    if (!reason.empty()) return world_.end(reason);
  }
}

}  // namespace adjoin::host
