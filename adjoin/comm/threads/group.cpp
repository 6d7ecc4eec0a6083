#include "adjoin/comm/threads/group.hpp"

#include <cstring>

#include "adjoin/base/error.hpp"

namespace adjoin::threads {

namespace {

/// The wait for all ranks of a group to come to one collective.
class Arrivals final : public Waiting {
 public:
  Arrivals(const Group& group, int rank, uint64_t sequence) : group_(group), rank_(rank), sequence_(sequence) {}

  bool is_over() const override { return group_.all_have_come(sequence_); }
  std::vector<int> needs() const override {
    std::vector<int> missing;
    for (int peer = 0; peer < group_.size(); ++peer)
      if (!group_.has_come(peer, sequence_)) missing.push_back(group_.world_rank(peer));
    return missing;
  }
  std::string describe() const override { return threads::describe(group_.call_of(rank_, sequence_)) + group_.name(); }

 private:
  const Group& group_;
  const int rank_;
  const uint64_t sequence_;
};

}  // namespace

Group::Group(std::shared_ptr<World> world, std::vector<int> world_ranks)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      small_bytes_(world_->patience().spins > 0 ? 512 : 4096),
      slots_(new Slot[2 * world_ranks_.size()]),
      progress_(new Progress[world_ranks_.size()]),
      decisions_(new Decision[world_ranks_.size()]),
      small_(new std::byte[2 * world_ranks_.size() * static_cast<size_t>(small_bytes_)]),
      mailboxes_(world_ranks_.size()) {}

void Group::begin(Agent& agent, int rank, uint64_t sequence, const Call& call, int64_t small_bytes) {
  Slot& mine = slot(rank, sequence);
  mine.call = call;
  if (small_bytes > 0) {
    std::memcpy(small_room(rank, sequence), call.in, static_cast<size_t>(small_bytes));
    mine.call.in = small_room(rank, sequence);
  }
  mine.sequence.store(sequence);
  parking_.wake();
  wait_for_all(agent, rank, sequence);
  if (!goes_ahead(rank, sequence)) world_->throw_aborted();
  check_agreement(rank, sequence);
}

void Group::wait_for_all(Agent& agent, int rank, uint64_t sequence) {
  const bool came = world_->wait_briefly(agent, [&] { return all_have_come(sequence) || world_->aborted(); });
  if (!came) world_->sleep(agent, parking_, Arrivals(*this, rank, sequence));
}

bool Group::all_have_come(uint64_t sequence) const {
  for (int peer = 0; peer < size(); ++peer)
    if (!has_come(peer, sequence)) return false;
  return true;
}

/// Whether this rank may touch its peers' memory. An abort may reach ranks between their arrival and their leaving, and
/// no rank may leave (and free its buffers) while a peer goes ahead. So:
/// who finds everybody here and then no abort goes ahead; who finds an abort and then somebody missing leaves, and both
/// cannot happen in one call, because the missing one comes after the abort. Who finds an abort with everybody here
/// asks all peers, each of which says soon what it found, and does as they do.
bool Group::goes_ahead(int rank, uint64_t sequence) {
  std::atomic<uint64_t>& mine = decisions_[static_cast<size_t>(rank)].value;
  if (!world_->aborted()) {
    mine.store(2 * sequence + 1, std::memory_order_release);
    return true;
  }
  mine.store(2 * sequence);
  if (!all_have_come(sequence)) return false;
  bool anybody = false;
  for (int peer = 0; peer < size(); ++peer) {
    const std::atomic<uint64_t>& theirs = decisions_[static_cast<size_t>(peer)].value;
    while (theirs.load() < 2 * sequence) std::this_thread::yield();
    anybody |= theirs.load() >= 2 * sequence + 1;
  }
  return anybody;
}

bool Group::calls_agree(uint64_t sequence) const {
  const Call& first = call_of(0, sequence);
  for (int peer = 1; peer < size(); ++peer)
    if (!(call_of(peer, sequence).signature == first.signature)) return false;
  if (first.signature.collective != Collective::all_to_all) return true;
  for (int from = 0; from < size(); ++from)
    for (int to = 0; to < size(); ++to)
      if (call_of(from, sequence).counts->send[static_cast<size_t>(to)] !=
          call_of(to, sequence).counts->receive[static_cast<size_t>(from)])
        return false;
  return true;
}

void Group::check_agreement(int rank, uint64_t sequence) {
  if (calls_agree(sequence)) return;
  std::vector<diagnosis::Line> calls;
  for (int peer = 0; peer < size(); ++peer) calls.push_back({world_rank(peer), describe(call_of(peer, sequence))});
  world_->end("mismatched collectives" + name() + ":" + diagnosis::list_of(calls));
  finish(rank, sequence);  // peers may still read what this rank published
  world_->throw_aborted();
}

std::string Group::name() const {
  if (size() == world_->size()) return "";
  std::string text;
  for (const int rank : world_ranks_) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return " on group {" + text + "}";
}

void Group::finish(int rank, uint64_t sequence) {
  progress_[static_cast<size_t>(rank)].finished.store(sequence);
  parking_.wake();
  for (int peer = 0; peer < size(); ++peer) {
    const auto has_finished = [&] { return progress_[static_cast<size_t>(peer)].finished.load() >= sequence; };
    // Peers that have come to the call are at work: no deadlock can lie here.
    if (!Parking::wait_briefly(world_->patience(), has_finished)) parking_.sleep(has_finished);
  }
}

std::shared_ptr<Group> Group::subset(std::span<const int> ranks, uint64_t nth) {
  const std::vector<int> members(ranks.begin(), ranks.end());
  const std::lock_guard lock(mutex_);
  const auto key = std::make_pair(members, nth);
  Forming& forming = forming_[key];
  if (!forming.group) {
    std::vector<int> world_ranks;
    for (const int member : members) world_ranks.push_back(world_ranks_[static_cast<size_t>(member)]);
    forming.group = std::make_shared<Group>(world_, std::move(world_ranks));
    world_->watch(forming.group);
  }
  const auto group = forming.group;
  if (++forming.joined == members.size()) forming_.erase(key);
  return group;
}

void Group::wake_all() {
  parking_.wake();
  for (Mailbox& box : mailboxes_) box.parking().wake();
}

}  // namespace adjoin::threads
