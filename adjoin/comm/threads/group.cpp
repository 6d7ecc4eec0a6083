#include "adjoin/comm/threads/group.hpp"

#include <cstring>

#include "adjoin/base/error.hpp"

namespace adjoin::threads {

Group::Group(std::shared_ptr<World> world, std::vector<int> world_ranks)
    : world_(std::move(world)),
      world_ranks_(std::move(world_ranks)),
      small_bytes_(world_->patience().spins > 0 ? 512 : 4096),
      slots_(new Slot[2 * world_ranks_.size()]),
      progress_(new Progress[world_ranks_.size()]),
      decisions_(new Decision[world_ranks_.size()]),
      small_(new std::byte[2 * world_ranks_.size() * static_cast<size_t>(small_bytes_)]),
      mailboxes_(world_ranks_.size()) {}

void Group::begin(int rank, uint64_t sequence, const Call& call, int64_t small_bytes) {
  Slot& mine = slot(rank, sequence);
  mine.call = call;
  if (small_bytes > 0) {
    std::memcpy(small_room(rank, sequence), call.in, static_cast<size_t>(small_bytes));
    mine.call.in = small_room(rank, sequence);
  }
  mine.sequence.store(sequence);
  parking_.wake();
  wait_for_all(rank, sequence);
  if (!goes_ahead(rank, sequence)) world_->throw_aborted();
  check_agreement(rank, sequence);
}

void Group::wait_for_all(int rank, uint64_t sequence) {
  for (int peer = 0; peer < size(); ++peer) {
    const int peer_in_world = world_ranks_[static_cast<size_t>(peer)];
    parking_.wait(world_->patience(),
                  [&] { return has_come(peer, sequence) || world_->aborted() || world_->has_departed(peer_in_world); });
    if (world_->has_departed(peer_in_world) && !has_come(peer, sequence)) {
      world_->abort("rank " + std::to_string(peer_in_world) + " returned while rank " +
                    std::to_string(world_ranks_[static_cast<size_t>(rank)]) + " waits for it in " +
                    describe(slot(rank, sequence).call));
    }
    if (world_->aborted()) return;
  }
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
  std::vector<const Call*> calls;
  for (int peer = 0; peer < size(); ++peer) calls.push_back(&call_of(peer, sequence));
  const std::string message = describe_mismatch(calls, world_ranks_, sequence);
  finish(rank, sequence);  // peers may still read this rank's counts
  throw CommunicationError(message);
}

void Group::finish(int rank, uint64_t sequence) {
  progress_[static_cast<size_t>(rank)].finished.store(sequence);
  parking_.wake();
  for (int peer = 0; peer < size(); ++peer)
    parking_.wait(world_->patience(), [&] { return progress_[static_cast<size_t>(peer)].finished.load() >= sequence; });
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
