#include "adjoin/comm/mpi/agent.hpp"

#include <utility>

namespace adjoin::mpi {

using State = AgentEntry::State;

namespace {

/// Adds one; a count has one writer, as a group is in one call of a rank at a time.
void increase(std::atomic<uint64_t>& count) {
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace

Agent::Agent(std::shared_ptr<MpiShared> shared, bool is_for_any_thread)
    : shared_(std::move(shared)),
      entry_(shared_->own ? shared_->own->take_agent() : nullptr),
      owner_(is_for_any_thread) {
  if (!entry_) shared_->note_lack_of_room("threads", ProcessEntry::kMostAgents);
}

Agent::~Agent() {
  if (shared_->own && entry_) entry_->change(State::free);
}

void Agent::rest(bool rests) noexcept {
  if (!shared_->own || !entry_ || (rests && !owner_.is_here())) return;
  entry_->change(rests ? State::rests : State::computes);
}

template <class Work>
void Watched::for_each_count(Work work) const {
  if (!counts_) return;
  const auto visit = [&](int peer, uint64_t key, uint64_t peers_key) {
    Count* count = counts_->make(peer, key, peers_key);
    count ? work(*count) : shared_.note_lack_of_room("peers and tags of messages", counts_->of.size());
  };
  if (call_.collective || call_.name == "subset") {
    const uint64_t key = key_of(Count::kAll, call_.collective ? static_cast<int>(*call_.collective) : Count::kMaking);
    visit(Count::kAll, key, key);
  }
  for (const Message& m : call_.messages)
    visit(m.peer, key_of(m.peer, m.tag, m.is_send()), key_of(call_.rank, m.tag, !m.is_send()));
}

Watched::Watched(const Agent& agent, const GroupEntry* group, const Call& call) : shared_(*agent.shared_), call_(call) {
  if (!shared_.own) return;
  agent_ = agent.entry_;
  const int place = group ? shared_.table.place_of(*group) : -1;
  if (group) counts_ = &shared_.own->counts[static_cast<size_t>(place)];
  for_each_count([](Count& count) { increase(count.begun); });
  if (!agent_) return;
  agent_->group.store(place, std::memory_order_relaxed);
  agent_->text = call;
  agent_->change(State::calls);
}

Watched::~Watched() {
  if (agent_) agent_->change(State::computes);
  for_each_count([](Count& count) { increase(count.ended); });
}

}  // namespace adjoin::mpi
