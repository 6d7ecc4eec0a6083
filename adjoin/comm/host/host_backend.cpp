#include "adjoin/comm/host/host_backend.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "adjoin/base/box.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"

namespace adjoin {

using host::Posting;
using host::Room;

namespace {

/// Shorter messages are copied by the rank that posts second, which saves waking the other one.
constexpr int64_t kLeastForReceiver = 16 << 10;

/// What an exchange waits for: ", has yet to send to rank 1 and receive from rank 2".
std::string what_is_left(std::span<const Posting> postings) {
  if (postings.size() == 1 && (!postings[0].call || postings[0].call->message())) return "";
  std::vector<std::string> left;
  for (const Posting& posting : postings)
    if (posting.state.load() == Posting::State::waiting)
      left.push_back((posting.message.is_send() ? "send to rank " : "receive from rank ") +
                     std::to_string(posting.message.peer));
  return left.empty() ? "" : ", has yet to " + joined(left, " and ");
}

int64_t in_lines(int64_t bytes) {
  constexpr auto kLine = static_cast<int64_t>(Room::kLine);
  return (bytes + kLine - 1) / kLine * kLine;
}

/// Makes the message of a posting refer only to memory that peers reach: the box is stored in the posting, and the data to send
/// in `copy`, unless that is null.
void make_reachable(Posting& posting, void* copy) {
  Message& message = posting.message;
  if (copy) {
    if (message.sizes.empty())
      copy_bytes(copy, message.buffer.data, message.buffer.bytes());
    else
      copy_box(copy, {}, {}, message.buffer.data, message.sizes, message.strides, size_of(message.buffer.type));
    message.buffer.data = copy;
    message.sizes = message.strides = {};
  } else if (message.sizes.size() <= Posting::kMostDims) {
    const size_t dims = message.sizes.size();
    const auto strides = std::ranges::copy(message.sizes, posting.box.begin()).out;
    std::ranges::copy(message.strides, strides);
    message.sizes = {posting.box.data(), dims};
    message.strides = {posting.box.data() + dims, dims};
  }
}

}  // namespace

HostBackend::HostBackend(std::shared_ptr<host::Group> group, int rank)
    : group_(std::move(group)),
      rank_(rank),
      counts_{std::pmr::vector<int64_t>(&group_->world().memory()),
              std::pmr::vector<int64_t>(&group_->world().memory())},
      postings_(group_->world().memory()) {}

void HostBackend::exchange(std::span<const Message> messages, const Call& call) {
  if (group_->world().aborted()) group_->world().throw_aborted();
  const Room copies = post_all(messages, call, postings_);
  wait_for(postings_);
}

HostBackend::PostedMessages::PostedMessages(std::shared_ptr<HostBackend> backend, const Call& call)
    : backend_(std::move(backend)),
      postings_(backend_->group_->world().memory()),
      copies_(backend_->post_all(call.messages, call, postings_, /*are_begun=*/true)) {}

HostBackend::PostedMessages::~PostedMessages() {
  if (!process_.is_here()) return;
  if (!done())
    for (Posting& posting : postings_.all()) backend_->take_back(posting);
  try {
    wait();
  } catch (const CommunicationError&) {  // the world has ended or will
  }
}

std::unique_ptr<HostBackend::PostedMessages> HostBackend::begin_messages(const Call& call) {
  if (group_->world().aborted()) group_->world().throw_aborted();
  return std::make_unique<PostedMessages>(std::static_pointer_cast<HostBackend>(shared_from_this()), call);
}

std::unique_ptr<Pending> HostBackend::begin(const Call& call) {
  return call.only_sends() ? begin_messages(call) : nullptr;
}

Room HostBackend::post_all(std::span<const Message> messages, const Call& call, host::Postings& postings,
                           bool are_begun) {
  host::World& world = group_->world();
  const bool of_processes = world.is_of_processes();
  const auto is_out_of_reach = [&](const Message& message) {
    return of_processes && message.buffer.bytes() > 0 &&
           (!world.reaches(message.buffer.data) || message.sizes.size() > Posting::kMostDims);
  };
  const auto is_copied = [&](const Message& message) { return message.is_send() && is_out_of_reach(message); };
  int64_t bytes = 0;
  for (const Message& message : messages)
    if (is_copied(message)) bytes += in_lines(message.buffer.bytes());
  Room copies(world.memory(), bytes);
  const std::span<Posting> posted = postings.take(messages.size(), call, rank_, of_processes);
  for (size_t i = 0; i < messages.size(); ++i) {
    posted[i].message = messages[i];
    if (!messages[i].is_send() || !posted[i].is_on_device()) continue;
    posted[i].event = &postings.event(i);
    on_device(call, [&] { posted[i].event->record(messages[i].buffer.device); });
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    Posting& posting = posted[i];
    posting.is_begun = are_begun && !messages[i].is_send();
    const int64_t own_bytes = is_copied(messages[i]) ? in_lines(messages[i].buffer.bytes()) : 0;
    if (of_processes) {
      posting.only_owner_copies = !messages[i].is_send() && is_out_of_reach(messages[i]);
      make_reachable(posting, own_bytes > 0 ? copies.at(bytes -= own_bytes) : nullptr);
    }
    post(posting);
  }
  return copies;
}

void HostBackend::post(Posting& mine) {
  Posting* theirs = group_->mailbox(mine.receiver()).match_or_leave(mine);
  if (!theirs) return;
  const int peer = theirs->owner;
  const bool is_send = mine.message.is_send();
  Posting &send = is_send ? mine : *theirs, &receive = is_send ? *theirs : mine;
  if (const auto text = host::difference(send, receive)) {
    group_->world().end(*text + group_->name());
    host::end(send, receive, Posting::State::failed);
  } else if (receive.only_owner_copies || receive.is_on_device() ||
             (mine.message.buffer.bytes() > kLeastForReceiver && !receive.is_begun)) {
    host::give_to_receiver(send, receive);
    if (!is_send) return;  // copied once all messages are posted
  } else {
    host::complete(send, receive);
  }
  group_->mailbox(peer).parking().wake();
}

bool HostBackend::take_back(Posting& posting) {
  if (!group_->mailbox(posting.receiver()).withdraw(posting)) return false;
  posting.state.store(Posting::State::failed);
  posting.pending->left.fetch_sub(1);
  return true;
}

void HostBackend::copy_matched(const host::Postings& postings) {
  for (Posting& posting : postings.all()) {
    if (posting.state.load() != Posting::State::matched) continue;
    postings.pending().to_copy.fetch_sub(1);
    if (posting.is_on_device())
      copy_on_device(posting);
    else
      host::complete(*posting.match, posting);
    group_->mailbox(posting.message.peer).parking().wake();
  }
}

void HostBackend::copy_on_device(Posting& posting) {
  try {
    on_device(*posting.call, [&] { host::complete(*posting.match, posting); });
  } catch (const CommunicationError& error) {  // the sender waits for the end of its message
    group_->world().end("rank " + std::to_string(group_->world_rank(rank_)) + ": " + error.what());
    host::end(*posting.match, posting, Posting::State::failed);
  }
}

void HostBackend::wait_for(const host::Postings& postings) {
  host::World& world = group_->world();
  host::Pending& pending = postings.pending();
  host::Parking& parking = group_->mailbox(rank_).parking();
  const bool is_from_any = postings.all().size() == 1 && postings.all()[0].message.peer < 0;
  const auto peers = [&] {
    std::vector<int> waited_for;
    for (int rank = 0; is_from_any && rank < size(); ++rank)
      if (rank != rank_ && pending.left.load() > 0) waited_for.push_back(group_->world_rank(rank));
    if (is_from_any) return waited_for;
    for (const Posting& posting : postings.all())
      if (posting.state.load() == Posting::State::waiting && posting.message.peer >= 0)
        waited_for.push_back(group_->world_rank(posting.message.peer));
    return waited_for;
  };
  const auto text = [&] {
    const Posting& first = postings.all()[0];
    return (first.call ? describe(*first.call) : describe(*first.record)) + group_->name() +
           what_is_left(postings.all());
  };
  copy_matched(postings);
  while (pending.left.load() > 0 && !world.aborted()) {
    if (!waiter().wait_briefly(world.patience(), [&] { return pending.is_over() || world.aborted(); }))
      waiter().sleep(parking, {.is_over = [&] { return pending.is_over(); },
                               .needs = std::ref(peers),  // a copy would be allocated
                               .describe = std::ref(text),
                               .needs_any = is_from_any});
    copy_matched(postings);
    if (pending.to_copy.load() > 0) std::this_thread::yield();  // lets a peer run that is about to say which one
  }
  for (Posting& posting : postings.all())
    if (pending.left.load() > 0) take_back(posting);
  const auto is_lost = [&](const Posting& posting) {
    const bool is_open = posting.state.load() < Posting::State::done;
    return is_open && posting.message.peer >= 0 && world.has_died(group_->world_rank(posting.message.peer));
  };
  for (; pending.left.load() > 0; std::this_thread::yield()) {  // a peer may still be copying
    copy_matched(postings);
    if (pending.left.load() > 0 && std::ranges::any_of(postings.all(), is_lost)) world.throw_aborted();
  }
  for (const Posting& posting : postings.all())
    if (posting.state.load() == Posting::State::failed) world.throw_aborted();
  for (const Posting& posting : postings.all())
    if (posting.event) on_device(*posting.call, [&] { posting.event->block(posting.message.buffer.device); });
}

}  // namespace adjoin
