#include "adjoin/comm/threads/mailbox.hpp"

#include <algorithm>
#include <cstring>

#include "adjoin/comm/threads/call.hpp"

namespace adjoin::threads {

namespace {

std::string describe_buffer(const Buffer& buffer) {
  return std::string(name(buffer.type)) + " x " + std::to_string(buffer.count);
}

std::string describe_difference(const Posting& send, const Posting& receive) {
  return "the message of rank " + std::to_string(send.owner) + " to rank " + std::to_string(receive.owner) +
         " with tag " + std::to_string(send.message.tag) + " is " + describe_buffer(send.message.buffer) +
         " where sent, at " + describe(send.where) + ", but " + describe_buffer(receive.message.buffer) +
         " where received, at " + describe(receive.where);
}

}  // namespace

Posting* Mailbox::match_or_leave(Posting& posting) {
  const bool is_send = posting.message.kind == Message::Kind::send;
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
  return std::erase(posting.message.kind == Message::Kind::send ? sends_ : receives_, &posting) > 0;
}

void complete(Posting& send, Posting& receive) {
  const Buffer &from = send.message.buffer, &to = receive.message.buffer;
  Posting::State outcome = Posting::State::done;
  if (from.type != to.type || from.count != to.count) {
    send.error = receive.error = describe_difference(send, receive);
    outcome = Posting::State::failed;
  } else if (from.count > 0) {
    std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
  }
  send.state.store(outcome);
  receive.state.store(outcome);
}

}  // namespace adjoin::threads
