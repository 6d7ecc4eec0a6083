#include "adjoin/comm/thread_backend.hpp"

#include <algorithm>
#include <numeric>

#include "adjoin/base/error.hpp"

namespace adjoin {

using threads::Posting;

ThreadWorld::ThreadWorld(int ranks) : world(std::make_shared<threads::World>(ranks)) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  group = std::make_shared<threads::Group>(world, std::move(all));
  world->watch(group);
}

std::shared_ptr<Backend> ThreadWorld::backend(int rank) const {
  return std::make_shared<ThreadBackend>(group, rank);
}

ThreadBackend::ThreadBackend(std::shared_ptr<threads::Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

void ThreadBackend::abort(std::string_view reason) noexcept {
  group_->world().abort(reason);
}

std::shared_ptr<Backend> ThreadBackend::subset(std::span<const int> ranks) {
  if (group_->world().aborted()) group_->world().throw_aborted();
  const std::vector<int> members(ranks.begin(), ranks.end());
  const uint64_t nth = subsets_made_[members]++;
  const auto mine = std::find(members.begin(), members.end(), rank_) - members.begin();
  return std::make_shared<ThreadBackend>(group_->subset(members, nth), static_cast<int>(mine));
}

void ThreadBackend::exchange(std::span<const Message> messages) {
  if (group_->world().aborted()) group_->world().throw_aborted();
  std::vector<Posting> postings(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    Posting& mine = postings[i];
    mine.message = messages[i];
    mine.owner = rank_;
    mine.where = where_;
    Posting* theirs = group_->mailbox(mine.receiver()).match_or_leave(mine);
    if (!theirs) continue;
    const int peer = theirs->owner;
    if (mine.message.kind == Message::Kind::send)
      complete(mine, *theirs);
    else
      complete(*theirs, mine);
    group_->mailbox(peer).parking().wake();
  }
  wait_for(postings);
}

void ThreadBackend::wait_for(std::vector<Posting>& postings) {
  threads::World& world = group_->world();
  std::string error;
  for (Posting& posting : postings) {
    const int peer = group_->world_ranks()[static_cast<size_t>(posting.message.peer)];
    const bool with_itself = posting.message.peer == rank_;
    if (!with_itself)
      group_->mailbox(rank_).parking().wait(
          world.patience(), [&] { return posting.is_over() || world.aborted() || world.has_departed(peer); });
    if (posting.state.load() == Posting::State::done) continue;
    const std::string me = "rank " + std::to_string(group_->world_ranks()[static_cast<size_t>(rank_)]);
    const std::string action = posting.message.kind == Message::Kind::send ? " to send to" : " to receive from";
    if (posting.state.load() == Posting::State::failed)
      error = posting.error;
    else if (with_itself)
      error = me + " waits forever" + action + " itself at " + threads::describe(where_);
    else if (!world.aborted())
      world.abort("rank " + std::to_string(peer) + " returned while " + me + " waits" + action + " it at " +
                  threads::describe(where_));
    withdraw(postings);
    if (error.empty()) world.throw_aborted();
    throw CommunicationError(error);
  }
}

void ThreadBackend::withdraw(std::vector<Posting>& postings) {
  for (Posting& posting : postings) {
    if (posting.is_over() || group_->mailbox(posting.receiver()).withdraw(posting)) continue;
    while (!posting.is_over()) std::this_thread::yield();  // a peer is copying
  }
}

}  // namespace adjoin
