#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/contract/call_record.hpp"
#include "adjoin/comm/host/parking.hpp"

namespace adjoin::host {

/// The messages that one call has posted together, as the posting rank waits for them.
struct Pending {
  std::atomic<int> left = 0;     // messages not yet ended; whoever ends one decrements it and does not touch it again
  std::atomic<int> to_copy = 0;  // matched receives that the rank itself copies

  bool is_over() const { return left.load() == 0 || to_copy.load() > 0; }
};

/// One message that a rank has posted and waits for, in memory that its peer reaches.
struct Posting {
  enum class State : int { waiting, matched, done, failed };
  static constexpr size_t kMostDims = 8;

  Message message;
  int owner = 0;                           // the rank in the group that posted it
  bool only_owner_copies = false;          // a receive into memory that the peer does not reach
  bool is_begun = false;                   // its owner may do something else meanwhile, so whoever posts second copies
  const Call* call = nullptr;              // of a thread: the call that it is part of
  const CallRecord* record = nullptr;      // of a process: the same
  Signature signature;                     // where it is part of a collective
  std::array<int64_t, 2 * kMostDims> box;  // of a process: what the message's sizes and strides point to
  std::atomic<State> state = State::waiting;
  Pending* pending = nullptr;    // the owner's messages of the same call
  Posting* match = nullptr;      // of a matched receive: the send to copy from
  Posting* next = nullptr;       // in the mailbox
  DeviceEvent* event = nullptr;  // of a send from a device: that its elements are written, then that they are copied

  /// -1: any.
  int sender() const { return message.is_send() ? owner : message.peer; }
  int receiver() const { return message.is_send() ? message.peer : owner; }
  /// Of threads only.
  bool is_on_device() const { return message.buffer.is_on_device() && call && !call->is_staged; }
};

/// The messages to one rank of a group that only one side has posted so far, in the order of posting. Plain data.
class Mailbox {
 public:
  /// Removes and returns the first posting of the other side with the same sender and tag; where there is none, adds this one
  /// and returns nullptr. A receive from any sender is then one from that sender.
  Posting* match_or_leave(Posting& posting);
  /// Takes a posting back; false where a peer has matched it and is about to finish it.
  bool withdraw(Posting& posting);

  /// Where this rank waits for its own postings, whichever mailboxes they are in.
  Parking& parking() { return parking_; }

 private:
  Lock lock_;
  Posting *sends_ = nullptr, *receives_ = nullptr;
  Parking parking_;
};

/// The postings of one call and the data that they share. Kept for the next call, so that no call allocates.
class Postings : NotCopied {
 public:
  explicit Postings(std::pmr::memory_resource& memory) : memory_(memory) {}
  ~Postings() { release(); }

  /// New postings for `messages` messages of `call`, none of them posted yet; `as_record`: for other processes to read.
  std::span<Posting> take(size_t messages, const Call& call, int owner, bool as_record);
  std::span<Posting> all() const { return {postings_, count_}; }
  Pending& pending() const { return shared_->pending; }
  /// The event of message `i`, for a send from a device.
  DeviceEvent& event(size_t i);

 private:
  struct Shared {
    Pending pending;
    CallRecord record;
  };
  void release();

  std::pmr::memory_resource& memory_;
  Shared* shared_ = nullptr;
  Posting* postings_ = nullptr;
  size_t count_ = 0, room_ = 0;
  std::vector<std::unique_ptr<DeviceEvent>> events_;
};

/// How a send and a receive that met differ: in their calls, element types or lengths; none where they fit.
std::optional<std::string> difference(const Posting& send, const Posting& receive);

/// Leaves the copying of a matched pair to the receiver: this is faster where two ranks send to each other, as both then work.
/// The caller must wake the receiver.
void give_to_receiver(Posting& send, Posting& receive);
/// Copies the data of a matched pair and ends both, or ends them as failed. The other rank's posting may be gone on return. On a
/// device, called by the receiver, whose stream then copies.
/// Throws: what a device's runtime throws, and then ends nothing
void complete(Posting& send, Posting& receive);
void end(Posting& send, Posting& receive, Posting::State state);

}  // namespace adjoin::host
