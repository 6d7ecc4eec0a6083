#include "adjoin/comm/threads/mailbox.hpp"

#include <algorithm>
#include <cstring>

#include "adjoin/base/box.hpp"

namespace adjoin::threads {

namespace {

std::string describe_side(const Posting& posting) {
  return "as " + describe(posting.message.buffer) + " by " + describe(*posting.call);
}

}  // namespace

Posting* Mailbox::match_or_leave(Posting& posting) {
  const bool is_send = posting.message.is_send();
  std::vector<Posting*>& others = is_send ? receives_ : sends_;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(others.begin(), others.end(), [&](const Posting* other) {
    return other->sender() == posting.sender() && other->message.tag == posting.message.tag;
  });
  if (found == others.end()) {
    (is_send ? sends_ : receives_).push_back(&posting);
    return nullptr;
  }
  Posting* match = *found;
  others.erase(found);
  return match;
}

bool Mailbox::withdraw(Posting& posting) {
  const std::lock_guard lock(mutex_);
  return std::erase(posting.message.is_send() ? sends_ : receives_, &posting) > 0;
}

std::optional<std::string> difference(const Posting& send, const Posting& receive) {
  const Buffer &from = send.message.buffer, &to = receive.message.buffer;
  const bool is_collective = send.message.tag == kCollectiveTag;
  const bool are_one_call = !is_collective || signature_of(*send.call) == signature_of(*receive.call);
  if (are_one_call && from.type == to.type && from.count == to.count) return std::nullopt;
  return "the message of rank " + std::to_string(send.owner) + " to rank " + std::to_string(receive.owner) +
         (is_collective ? "" : " with tag " + std::to_string(send.message.tag)) + " is sent " + describe_side(send) +
         ", but received " + describe_side(receive);
}

void give_to_receiver(Posting& send, Posting& receive) {
  receive.match = &send;
  receive.pending->to_copy.fetch_add(1);
  receive.state.store(Posting::State::matched);  // from here on it may be over
}

void complete(Posting& send, Posting& receive) {
  const Message &from = send.message, &to = receive.message;
  if (!from.sizes.empty() || !to.sizes.empty())
    copy_box(to.buffer.data, to.sizes, to.strides, from.buffer.data, from.sizes, from.strides,
             size_of(from.buffer.type));
  else if (from.buffer.count > 0)
    std::memmove(to.buffer.data, from.buffer.data, static_cast<size_t>(from.buffer.bytes()));
  end(send, receive, Posting::State::done);
}

void end(Posting& send, Posting& receive, Posting::State state) {
  for (Posting* posting : {&send, &receive}) {
    Pending* pending = posting->pending;
    posting->state.store(state);
    pending->left.fetch_sub(1);
  }
}

}  // namespace adjoin::threads
