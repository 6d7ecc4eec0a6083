#include "adjoin/comm/communicator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/algorithm/perform.hpp"
#include "adjoin/comm/arguments.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/comm/contract/own_call.hpp"
#include "adjoin/comm/staged_call.hpp"
#include "adjoin/comm/stand_in.hpp"
#include "adjoin/comm/threads/thread_backend.hpp"
#include "adjoin/comm/turns.hpp"

namespace adjoin {

namespace {

/// How a collective is carried out: "auto", a name in the catalogue, or "" for the backend's own way.
struct Choice {
  std::string_view algorithm = {};
  int64_t chunk = 0;
};

std::string lead_of(const Call& call) {
  return std::string(call.name) + " on rank " + std::to_string(call.rank) + " at " + describe(call.where);
}

/// 0 is the world.
uint64_t id_of(uint64_t hash) {
  return std::max<uint64_t>(1, mix(hash));
}

/// Reports a call to an observer for as long as this object lives.
struct Seen {
  Seen(Observer* by, const Call& what) : observer(by), call(what) {
    if (observer) observer->begin(call);
  }
  ~Seen() {
    if (observer) observer->end(call);
  }
  Observer* observer;
  const Call& call;
};

}  // namespace

struct Communicator::State {
  /// What a rank has begun on all groups that were made from one.
  struct Pendings {
    std::mutex mutex;
    std::vector<Begun*> all;
  };
  /// Shared by all communicators with this backend, whatever observes them.
  struct Shared {
    std::vector<Begun*> begun;  // what following calls wait for, in order
    std::string failure;        // why no call can follow
    std::atomic<uint64_t> calls = 0, meetings = 0;
    std::atomic<uint64_t> carried = 0;             // how many groups carried_by has made from this one
    std::map<std::vector<int>, uint64_t> subsets;  // how many groups with these members were made
    std::optional<AsyncCommunicator> stream;       // refers to this group's backend, not to this: so there is no cycle
  };

  std::shared_ptr<Backend> backend;
  std::shared_ptr<Observer> observer;
  std::array<Choice, kCollectives> choices = {};
  int rank = backend->rank(), size = backend->size();
  ProcessOwner process = {};
  std::shared_ptr<const GroupIdentity> group =
      std::make_shared<GroupIdentity>(GroupIdentity{.world_ranks = all_ranks(size)});
  std::shared_ptr<Pendings> pendings = std::make_shared<Pendings>();
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();

  /// A group of one rank may also be used in a child of the process, as nobody else is concerned.
  bool is_in_its_process() const { return size == 1 || process.is_here(); }
  Choice& choice(Collective collective) { return choices[static_cast<size_t>(collective)]; }
};

Communicator::Communicator() : Communicator(ThreadWorld(1).backend(0)) {}

Communicator::Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Observer> observer)
    : Communicator(State{.backend = std::move(backend), .observer = std::move(observer)}) {}

Communicator::Communicator(State state) : state_(std::make_shared<State>(std::move(state))) {}

int Communicator::rank() const {
  return state_->rank;
}
int Communicator::size() const {
  return state_->size;
}
std::span<const int> Communicator::world_ranks() const {
  return state_->group->world_ranks;
}
const GroupIdentity& Communicator::identity() const {
  return *state_->group;
}
bool Communicator::checked() const {
  return state_->backend->is_checked();
}

void Communicator::fill_and_check(Call& call) const {
  if (CallSite::current()) call.where = *CallSite::current();
  call.rank = state_->rank;
  call.size = state_->size;
  if (call.collective) {
    call.name = name(*call.collective);
    const Choice& choice = state_->choice(*call.collective);
    call.algorithm = choice.algorithm;
    call.chunk = choice.chunk;
  }
  arguments::check(call);
  if (call.algorithm == algorithm::kAuto) algorithm::choose_for(call);
}

void Communicator::check_thread(const Call& call, std::string_view wait) const {
  if (!state_->is_in_its_process()) state_->process.require_here(lead_of(call));
  if (const auto stands = stands_in.load(std::memory_order_relaxed); stands && stands()) return;
  if (Turns::is_second()) return;
  if (ThreadOwner* owner = state_->backend->owner(); owner && !owner->is_here())
    throw InvalidArgument(std::string(wait) + lead_of(call) +
                          ": this communicator belongs to another thread of the rank; give each thread one of its own, "
                          "made by for_thread()");
}

void Communicator::number(Call& call) const {
  if (CallSite::current()) call.where = *CallSite::current();
  check_thread(call);
  // One thread at a time increases the counter.
  call.sequence = state_->shared->calls.load(std::memory_order_relaxed) + 1;
  state_->shared->calls.store(call.sequence, std::memory_order_relaxed);
  call.group = state_->group.get();
  if (!call.collective) return;
  call.meeting = state_->shared->meetings.load(std::memory_order_relaxed) + 1;
  state_->shared->meetings.store(call.meeting, std::memory_order_relaxed);
}

/// A call that its rank has begun, with all that it needs until its end.
class Communicator::Begun final : public Pending {
 public:
  Begun(const Communicator& group, const Call& call) : group_(group), own_(call) {
    const Seen seen(state().observer.get(), own_.call);
    if (StagedCall::is_needed(own_.call, *state().backend)) staged_.emplace(own_.call);
    // One that was begun before may have to wait until its rank does.
    const auto runs = [](const Begun* other) { return other->running_ != nullptr; };
    if (own_.call.only_sends() || std::ranges::all_of(state().shared->begun, runs))
      running_ = state().backend->begin(carried_out());
    if (!own_.call.only_sends()) state().shared->begun.push_back(this);
    const std::lock_guard lock(state().pendings->mutex);
    state().pendings->all.push_back(this);
  }
  ~Begun() override {
    if (!process_.is_here()) return;
    if (std::uncaught_exceptions() > exceptions_)
      give_up();
    else
      try {
        if (!has_ended_) wait();
      } catch (...) {  // no caller can receive the error
        state().backend->fail(std::current_exception());
      }
    std::erase(state().shared->begun, this);
    const std::lock_guard lock(state().pendings->mutex);
    std::erase(state().pendings->all, this);
  }

  void wait() override {
    group_.check_thread(own_.call, "wait for ");
    if (Turns* const turns = has_ended_ ? nullptr : group_.turns()) turns->change();
    const ObservedWait seen(done() ? nullptr : state().observer.get(), &own_.call);
    if (!has_ended_) group_.end_begun(own_.call.sequence);
    end();
  }
  bool done() override { return has_ended_ || (process_.is_here() && running_ && running_->done()); }

  const Call& call() const { return own_.call; }
  void end() {
    if (!has_ended_) try {
        running_ ? running_->wait() : group_.hand_over(carried_out());
        if (staged_) staged_->finish();
      } catch (...) {
        error_ = std::current_exception();
      }
    if (!std::exchange(has_ended_, true)) std::erase(state().shared->begun, this);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  State& state() const { return *group_.state_; }
  const Call& carried_out() const { return staged_ ? staged_->call() : own_.call; }
  void give_up() {
    if (done()) return;
    state().backend->fail(nullptr);
    running_.reset();
    if (!own_.call.only_sends())
      state().shared->failure = lead_of(own_.call) + " was begun, and an exception has ended it before its end";
  }

  const ProcessOwner process_;
  const int exceptions_ = std::uncaught_exceptions();  // that were being thrown when it began
  const Communicator group_;
  const OwnCall own_;
  std::optional<StagedCall> staged_;
  std::unique_ptr<Pending> running_;  // nullptr: it is carried out when it must have ended
  bool has_ended_ = false;
  std::exception_ptr error_;
};

Begin Communicator::begin() const {
  return Begin(*this);
}

std::unique_ptr<Pending> Communicator::begin(Call&& call) const {
  fill_and_check(call);
  number(call);
  call.is_begun = true;
  return std::make_unique<Begun>(*this, call);
}

std::unique_ptr<Pending> Communicator::isend(ConstBuffer in, int to, int tag, Where where) const {
  const Message messages[] = {send_of(in, to, tag)};
  return begin({.name = "isend", .messages = messages, .where = where});
}

/// The turns that change where this group is waited for.
Turns* Communicator::turns() const {
  Turns* const turns = Turns::current();
  return turns && turns->change_at(*state_->group) ? turns : nullptr;
}

/// Ends what was begun on this group before call number `before`.
void Communicator::end_begun(uint64_t before) const {
  State::Shared& shared = *state_->shared;
  if (!shared.failure.empty()) throw CommunicationError(shared.failure);
  while (!shared.begun.empty() && shared.begun.front()->call().sequence < before) shared.begun.front()->end();
}

void Communicator::require_nothing_begun() const {
  const std::lock_guard lock(state_->pendings->mutex);
  std::vector<std::string> calls;
  for (Begun* begun : state_->pendings->all)
    if (!begun->done()) calls.push_back(adjoin::describe(begun->call()));
  require(calls.empty(), "expected this rank to wait for what it has begun: " + joined(calls));
}

void Communicator::hand_over(const Call& call) const {
  if (StagedCall::is_needed(call, *state_->backend)) {
    if (call.size == 1 && call.collective && kind_of(*call.collective).is_in_place)
      return;  // no need to wait for a device
    const StagedCall staged(call);
    hand_over(staged.call());
    return staged.finish();
  }
  call.collective ? state_->backend->run_collective(call) : state_->backend->exchange(call.messages, call);
}

void Communicator::carry_out(Call&& call) const {
  if (turns()) return begin(std::move(call))->wait();
  fill_and_check(call);
  number(call);
  const Seen seen(state_->observer.get(), call);
  end_begun(call.sequence);
  hand_over(call);
}

std::optional<Communicator> Communicator::split(int color, int key, Where where) const {
  const auto peers = static_cast<size_t>(size());
  const int32_t mine[] = {color, key};
  std::vector<int32_t> all(2 * peers);
  all_gather(const_buffer(mine), buffer(all), std::vector<int64_t>(peers, 2), where);
  if (color < 0) return std::nullopt;
  std::vector<int> members;
  for (size_t r = 0; r < peers; ++r)
    if (all[2 * r] == color) members.push_back(static_cast<int>(r));
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return all[2 * static_cast<size_t>(a) + 1] < all[2 * static_cast<size_t>(b) + 1];
  });
  return subset(members, where);
}

Communicator Communicator::subset(std::span<const int> ranks, Where where) const {
  Call call{.name = "subset", .where = where, .rank = rank(), .size = size()};
  for (const int rank : ranks) {
    arguments::check_rank(call, "member", rank);
    if (std::count(ranks.begin(), ranks.end(), rank) > 1)
      arguments::fail(call, "each member once", "rank " + std::to_string(rank) + " twice");
  }
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
    arguments::fail(call, "this rank among the members", "a list without it");
  number(call);
  end_begun(call.sequence);
  std::vector<int> of_world;
  for (const int rank : ranks) of_world.push_back(world_ranks()[static_cast<size_t>(rank)]);
  const uint64_t nth = ++state_->shared->subsets[of_world];
  const std::span<const int> members(of_world);
  auto group = std::make_shared<GroupIdentity>();
  group->id = id_of(hash_of(members, mix(mix(state_->group->id + 1) + nth)));
  group->world_ranks = std::move(of_world);
  return Communicator(State{.backend = state_->backend->subset(ranks, call),
                            .observer = state_->observer,
                            .choices = state_->choices,
                            .group = std::move(group),
                            .pendings = state_->pendings});
}

Communicator Communicator::for_thread() const {
  if (!state_->is_in_its_process()) state_->process.require_here("for_thread");
  return carried_by(state_->backend->for_thread(/*is_for_any_thread=*/false));
}

AsyncCommunicator Communicator::stream(Where where) const {
  check_thread({.name = "stream", .where = where, .rank = rank(), .size = size()});
  std::optional<AsyncCommunicator>& kept = state_->shared->stream;
  if (!kept) kept.emplace(*this, where);
  State mine = *kept->group_.state_;
  mine.observer = state_->observer;
  mine.choices = state_->choices;
  return AsyncCommunicator(Communicator(std::move(mine)), kept->stream_);
}

Communicator Communicator::carried_by(std::shared_ptr<Backend> backend) const {
  State carried{.backend = std::move(backend), .observer = state_->observer, .choices = state_->choices};
  carried.process = state_->process;
  carried.pendings = state_->pendings;
  auto group = std::make_shared<GroupIdentity>(carried.size == state_->size ? *state_->group : *carried.group);
  group->id = id_of(mix(~state_->group->id) + ++state_->shared->carried);
  carried.group = std::move(group);
  return Communicator(std::move(carried));
}

Communicator Communicator::with_algorithm(Collective collective, std::string_view algorithm, int64_t chunk,
                                          Where where) const {
  const Call call{.name = "with_algorithm", .where = where, .rank = rank(), .size = size()};
  const std::string_view known =
      algorithm == algorithm::kAuto ? algorithm::kAuto : algorithm::known_name(collective, algorithm);
  if (known.empty())
    arguments::fail(call,
                    "one of the algorithms of " + std::string(name(collective)) + " (auto, " +
                        joined(algorithm::names_of(collective)) + ")",
                    "'" + std::string(algorithm) + "'");
  if (chunk < 0) arguments::fail(call, "a chunk that is not negative", std::to_string(chunk));
  State chosen = *state_;
  chosen.choice(collective) = {known, chunk};
  return Communicator(std::move(chosen));
}

Communicator Communicator::deterministic() const {
  State chosen = *state_;
  for (int i = 0; i < kCollectives; ++i)
    if (const auto c = static_cast<Collective>(i); has_reduction(c))
      chosen.choice(c) = {chosen.backend->reduces_in_rank_order() ? std::string_view() : algorithm::kRankOrder};
  return Communicator(std::move(chosen));
}

const std::shared_ptr<Backend>& Communicator::backend() const {
  return state_->backend;
}
const std::shared_ptr<Observer>& Communicator::observer() const {
  return state_->observer;
}

void Communicator::abort(std::string_view reason) const noexcept {
  if (state_->process.is_here()) state_->backend->abort(reason);
}

Communicator Communicator::observed_by(std::shared_ptr<Observer> observer) const {
  State observed = *state_;
  observed.observer = std::move(observer);
  return Communicator(std::move(observed));
}

}  // namespace adjoin
