#include "adjoin/comm/threads/thread_backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin {

using threads::Posting;

namespace {

/// Shorter messages are copied by whoever posts second, which saves waking the other.
constexpr int64_t kLeastForReceiver = 16 << 10;

/// What an exchange waits for: ", has yet to send to rank 1 and receive from rank 2".
std::string what_is_left(std::span<const Posting> postings) {
  const Call& call = *postings[0].call;
  if (call.message() && postings.size() == 1) return "";
  std::vector<std::string> left;
  for (const Posting& posting : postings)
    if (posting.state.load() == Posting::State::waiting)
      left.push_back((posting.message.is_send() ? "send to rank " : "receive from rank ") +
                     std::to_string(posting.message.peer));
  return left.empty() ? "" : ", has yet to " + joined(left, " and ");
}

}  // namespace

ThreadWorld::ThreadWorld(int ranks, std::chrono::milliseconds deadline, bool is_checked)
    : world(std::make_shared<threads::World>(ranks, deadline, is_checked)) {
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  group = std::make_shared<threads::Group>(world, std::move(all));
  world->watch(group);
  for (int rank = 0; rank < ranks; ++rank)
    agents.push_back(std::make_shared<threads::Agent>(
        world->detector(), rank, ranks == 1 ? threads::Agent::Kind::of_any_thread : threads::Agent::Kind::of_launch));
}

std::shared_ptr<Backend> ThreadWorld::backend(int rank) const {
  return std::make_shared<ThreadBackend>(group, agents[static_cast<size_t>(rank)], rank);
}

void ThreadWorld::depart(int rank) const {
  world->detector().leave(*agents[static_cast<size_t>(rank)]);
}

ThreadBackend::ThreadBackend(std::shared_ptr<threads::Group> group, std::shared_ptr<threads::Agent> agent, int rank)
    : group_(std::move(group)), agent_(std::move(agent)), rank_(rank) {}

void ThreadBackend::abort(std::string_view reason) noexcept {
  group_->world().abort(agent_->rank(), reason);
}

std::shared_ptr<Backend> ThreadBackend::for_thread(bool is_for_any_thread) {
  auto agent = std::make_shared<threads::Agent>(
      group_->world().detector(), agent_->rank(),
      is_for_any_thread ? threads::Agent::Kind::of_any_thread : threads::Agent::Kind::of_user);
  return std::make_shared<ThreadBackend>(group_, std::move(agent), rank_);
}

void ThreadBackend::rest(bool rests) noexcept {
  if (!rests || agent_->owner().is_here()) group_->world().detector().rest(*agent_, rests);
}

bool ThreadBackend::fail(std::exception_ptr cause) noexcept {
  group_->world().fail(agent_->rank(), cause);
  return true;
}

std::shared_ptr<Backend> ThreadBackend::subset(std::span<const int> ranks, const Call&) {
  if (group_->world().aborted()) group_->world().throw_aborted();
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
  return std::make_shared<ThreadBackend>(group_->subset(rank_, ranks), agent_, static_cast<int>(mine));
}

void ThreadBackend::exchange(std::span<const Message> messages, const Call& call) {
  threads::World& world = group_->world();
  if (world.aborted()) world.throw_aborted();
  threads::Pending pending;
  pending.left.store(static_cast<int>(messages.size()));
  std::vector<Posting> postings(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    postings[i].message = messages[i];
    postings[i].owner = rank_;
    postings[i].call = &call;
    postings[i].pending = &pending;
    post(postings[i]);
  }
  wait_for(postings, pending);
}

/// What a peer finds of the send: call, message and posting, which an exchange has on its stack.
class ThreadBackend::PostedSend final : public Sending {
 public:
  PostedSend(std::shared_ptr<ThreadBackend> backend, const Message& message, const Call& call)
      : backend_(std::move(backend)), call_(call) {
    posting_.message = message;
    posting_.owner = backend_->rank_;
    posting_.call = &call_;
    posting_.pending = &pending_;
    call_.messages = {&posting_.message, 1};
    pending_.left.store(1);
    backend_->post(posting_);
  }
  ~PostedSend() override {
    if (done()) return;
    if (std::uncaught_exceptions() > 0) backend_->fail(nullptr);
    try {
      wait();
    } catch (const CommunicationError&) {  // the world has ended, of which the next call tells
    }
  }
  void wait() override { backend_->wait_for({&posting_, 1}, pending_); }
  bool done() override { return pending_.left.load() == 0; }

 private:
  const std::shared_ptr<ThreadBackend> backend_;
  Call call_;
  threads::Pending pending_;
  Posting posting_;
};

std::unique_ptr<Sending> ThreadBackend::begin_send(const Message& message, const Call& call) {
  if (group_->world().aborted()) group_->world().throw_aborted();
  return std::make_unique<PostedSend>(std::static_pointer_cast<ThreadBackend>(shared_from_this()), message, call);
}

void ThreadBackend::post(Posting& mine) {
  Posting* theirs = group_->mailbox(mine.receiver()).match_or_leave(mine);
  if (!theirs) return;
  const int peer = theirs->owner;
  const bool is_send = mine.message.is_send();
  Posting &send = is_send ? mine : *theirs, &receive = is_send ? *theirs : mine;
  if (const auto text = threads::difference(send, receive)) {
    group_->world().end(*text + group_->name());
    threads::end(send, receive, Posting::State::failed);
  } else if (mine.message.buffer.bytes() > kLeastForReceiver) {
    threads::give_to_receiver(send, receive);
    if (!is_send) return;  // once all is posted
  } else {
    threads::complete(send, receive);
  }
  group_->mailbox(peer).parking().wake();
}

void ThreadBackend::copy_matched(std::span<Posting> postings, threads::Pending& pending) {
  for (Posting& posting : postings) {
    if (posting.state.load() != Posting::State::matched) continue;
    pending.to_copy.fetch_sub(1);
    threads::complete(*posting.match, posting);
    group_->mailbox(posting.message.peer).parking().wake();
  }
}

void ThreadBackend::wait_for(std::span<Posting> postings, threads::Pending& pending) {
  threads::World& world = group_->world();
  threads::Parking& parking = group_->mailbox(rank_).parking();
  const auto peers = [&] {
    std::vector<int> waited_for;
    for (const Posting& posting : postings)
      if (posting.state.load() == Posting::State::waiting)
        waited_for.push_back(group_->world_rank(posting.message.peer));
    return waited_for;
  };
  const auto text = [&] { return describe(*postings[0].call) + group_->name() + what_is_left(postings); };
  copy_matched(postings, pending);
  while (pending.left.load() > 0 && !world.aborted()) {
    if (!world.wait_briefly(*agent_, [&] { return pending.is_over() || world.aborted(); }))
      world.sleep(*agent_, parking, {.is_over = [&] { return pending.is_over(); }, .needs = peers, .describe = text});
    copy_matched(postings, pending);
  }
  for (Posting& posting : postings)
    if (pending.left.load() > 0 && group_->mailbox(posting.receiver()).withdraw(posting)) {
      posting.state.store(Posting::State::failed);
      pending.left.fetch_sub(1);
    }
  for (; pending.left.load() > 0; std::this_thread::yield()) copy_matched(postings, pending);  // or a peer is copying
  for (const Posting& posting : postings)
    if (posting.state.load() == Posting::State::failed) world.throw_aborted();
}

}  // namespace adjoin
