#include "adjoin/comm/host/mailbox.hpp"

#include <algorithm>
#include <cstring>

#include "adjoin/base/box.hpp"

namespace adjoin::host {

namespace {

std::string describe_side(const Posting& posting) {
  return "as " + describe(posting.message.buffer) + " by " +
         (posting.call ? describe(*posting.call) : describe(*posting.record));
}

/// Removes the first posting for which `is_wanted` is true, if there is one, from the list that begins at `first`.
template <class IsWanted>
Posting* take_out(Posting*& first, IsWanted is_wanted) {
  for (Posting** place = &first; *place; place = &(*place)->next) {
    if (!is_wanted(**place)) continue;
    Posting* found = *place;
    *place = found->next;
    return found;
  }
  return nullptr;
}

void append(Posting*& first, Posting& posting) {
  Posting** place = &first;
  while (*place) place = &(*place)->next;
  posting.next = nullptr;
  *place = &posting;
}

}  // namespace

Posting* Mailbox::match_or_leave(Posting& posting) {
  const bool is_send = posting.message.is_send();
  const std::lock_guard lock(lock_);
  Posting* match = take_out(is_send ? receives_ : sends_, [&](const Posting& other) {
    const bool is_any = other.sender() < 0 || posting.sender() < 0;
    return (is_any || other.sender() == posting.sender()) && other.message.tag == posting.message.tag;
  });
  if (!match) {
    append(is_send ? sends_ : receives_, posting);
    return nullptr;
  }
  // Its owner may be reading whom it waits for, unless that is any.
  Posting &receive = is_send ? *match : posting, &send = is_send ? posting : *match;
  if (receive.message.peer < 0) receive.message.peer = send.owner;
  return match;
}

bool Mailbox::withdraw(Posting& posting) {
  const std::lock_guard lock(lock_);
  return take_out(posting.message.is_send() ? sends_ : receives_,
                  [&](const Posting& other) { return &other == &posting; }) != nullptr;
}

std::span<Posting> Postings::take(size_t messages, const Call& call, int owner, bool as_record) {
  if (messages > room_ || !shared_) {
    release();
    shared_ = new (memory_.allocate(sizeof(Shared), alignof(Shared))) Shared;
    postings_ = static_cast<Posting*>(memory_.allocate(messages * sizeof(Posting), alignof(Posting)));
    for (room_ = 0; room_ < messages; ++room_) new (postings_ + room_) Posting;
  }
  count_ = messages;
  pending().left.store(static_cast<int>(messages));
  pending().to_copy.store(0);
  if (as_record) shared_->record.note(call);
  const Signature signature = call.collective ? signature_of(call) : Signature();
  for (size_t i = 0; i < messages; ++i) {
    Posting& posting = postings_[i];
    posting.owner = owner;
    posting.only_owner_copies = posting.is_begun = false;
    posting.call = as_record ? nullptr : &call;
    posting.record = &shared_->record;
    posting.signature = signature;
    posting.state.store(Posting::State::waiting, std::memory_order_relaxed);
    posting.pending = &pending();
    posting.match = nullptr;
    posting.event = nullptr;
  }
  return all();
}

DeviceEvent& Postings::event(size_t i) {
  while (events_.size() <= i) events_.push_back(device_runtime()->new_event());
  return *events_[i];
}

void Postings::release() {
  if (postings_) memory_.deallocate(postings_, room_ * sizeof(Posting), alignof(Posting));
  if (shared_) memory_.deallocate(shared_, sizeof(Shared), alignof(Shared));
  postings_ = nullptr;
  shared_ = nullptr;
  room_ = 0;
}

std::optional<std::string> difference(const Posting& send, const Posting& receive) {
  const Buffer &from = send.message.buffer, &to = receive.message.buffer;
  const bool is_collective = send.message.tag == kCollectiveTag;
  const bool are_one_call = !is_collective || send.signature == receive.signature;
  const bool are_alike = from.type == to.type && from.count == to.count && from.device.kind == to.device.kind;
  if (are_one_call && are_alike) return std::nullopt;
  return "the message of rank " + std::to_string(send.owner) + " to rank " + std::to_string(receive.owner) +
         (is_collective ? "" : " with tag " + std::to_string(send.message.tag)) + " is sent " + describe_side(send) +
         ", but received " + describe_side(receive);
}

void give_to_receiver(Posting& send, Posting& receive) {
  receive.match = &send;
  receive.pending->to_copy.fetch_add(1);
  receive.state.store(Posting::State::matched);  // from here on the receiver may end it
}

void complete(Posting& send, Posting& receive) {
  const Message &from = send.message, &to = receive.message;
  if (receive.is_on_device()) {
    send.event->block(to.buffer.device);
    device_runtime()->copy_box(to.buffer, to.sizes, to.strides, from.buffer, from.sizes, from.strides);
    send.event->record(to.buffer.device);
  } else if (!from.sizes.empty() || !to.sizes.empty())
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

}  // namespace adjoin::host
