#include "adjoin/comm/communicator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "adjoin/base/hash.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/algorithm/perform.hpp"
#include "adjoin/comm/arguments.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/comm/stand_in.hpp"
#include "adjoin/comm/threads/thread_backend.hpp"

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

/// Reports to an observer that its rank waits for a send.
class SeenSend final : public OwnSend {
 public:
  SeenSend(std::unique_ptr<PendingSend> sending, const Call& call, std::shared_ptr<Observer> observer,
           std::shared_ptr<const GroupIdentity> group)
      : OwnSend(call.messages[0], call),
        sending_(std::move(sending)),
        observer_(std::move(observer)),
        group_(std::move(group)) {}

  void wait() override {
    if (sending_->done()) return sending_->wait();
    const ObservedWait seen(observer_.get(), &call_);
    sending_->wait();
  }
  bool done() override { return sending_->done(); }

 private:
  std::unique_ptr<PendingSend> sending_;
  std::shared_ptr<Observer> observer_;
  std::shared_ptr<const GroupIdentity> group_;
};

}  // namespace

struct Communicator::State {
  /// Shared by all communicators with this backend, whatever observes them.
  struct Shared {
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

void Communicator::prepare(Call& call) const {
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

void Communicator::check_thread(const Call& call) const {
  if (!state_->is_in_its_process()) state_->process.require_here(lead_of(call));
  if (const auto stands = stands_in.load(std::memory_order_relaxed); stands && stands()) return;
  if (ThreadOwner* owner = state_->backend->owner(); owner && !owner->is_here())
    throw InvalidArgument(lead_of(call) +
                          ": this communicator belongs to another thread of the rank; give each thread one of its own, "
                          "made by for_thread()");
}

void Communicator::begin(Call& call) const {
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

std::unique_ptr<PendingSend> Communicator::isend(ConstBuffer in, int to, int tag, Where where) const {
  const Message messages[] = {send_of(in, to, tag)};
  Call call{.name = "isend", .messages = messages, .where = where};
  prepare(call);
  begin(call);
  const Seen seen(state_->observer.get(), call);
  std::unique_ptr<PendingSend> sending = state_->backend->begin_send(messages[0], call);
  if (!state_->observer) return sending;
  return std::make_unique<SeenSend>(std::move(sending), call, state_->observer, state_->group);
}

void Communicator::make(Call&& call) const {
  prepare(call);
  begin(call);
  const Seen seen(state_->observer.get(), call);
  if (call.collective)
    state_->backend->run_collective(call);
  else
    state_->backend->exchange(call.messages, call);
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
  begin(call);
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
                            .group = std::move(group)});
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
