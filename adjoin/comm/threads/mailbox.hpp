#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/call.hpp"
#include "adjoin/comm/threads/parking.hpp"

namespace adjoin::threads {

/// The messages that one call has posted together; it lives on the stack of the rank that waits for them.
struct Pending {
  std::atomic<int> left = 0;     // whoever ends a message counts down and is then done with it
  std::atomic<int> to_copy = 0;  // matched receives, which the rank itself copies

  bool is_over() const { return left.load() == 0 || to_copy.load() > 0; }
};

/// One message that a rank has posted and waits for; it lives on that rank's stack.
struct Posting {
  enum class State : int { waiting, matched, done, failed };

  Message message;
  int owner = 0;               // the rank in the group that posted it
  const Call* call = nullptr;  // that it is part of
  std::atomic<State> state = State::waiting;
  Pending* pending = nullptr;  // of the owner's messages
  Posting* match = nullptr;    // of a matched receive: what it is to copy

  int sender() const { return message.is_send() ? owner : message.peer; }
  int receiver() const { return message.is_send() ? message.peer : owner; }
};

/// The messages to one rank of a group that have been posted on one side only, in the order of posting.
class Mailbox {
 public:
  /// Takes out the first posting of the other side with the same sender and tag, or leaves this one and gives nullptr.
  Posting* match_or_leave(Posting& posting);
  /// Takes a posting back; false where a peer has matched it and is about to finish it.
  bool withdraw(Posting& posting);

  /// Where this rank waits for its own postings, in whichever mailbox they are.
  Parking& parking() { return parking_; }

 private:
  std::mutex mutex_;
  std::vector<Posting*> sends_, receives_;
  Parking parking_;
};

/// What keeps a send and a receive that met from being one message: their calls, element types or lengths.
std::optional<std::string> difference(const Posting& send, const Posting& receive);

/// Leaves the copying of a matched pair to the receiver: that is quicker where two ranks send to each other, and both are
/// then at work. The receiver is to be woken.
void give_to_receiver(Posting& send, Posting& receive);
/// Moves the data of a matched pair and ends both, or ends them otherwise. The other rank's posting may be gone on return.
void complete(Posting& send, Posting& receive);
void end(Posting& send, Posting& receive, Posting::State state);

}  // namespace adjoin::threads
