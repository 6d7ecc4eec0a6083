#pragma once

#include <atomic>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

#include "adjoin/comm/backend.hpp"
#include "adjoin/comm/threads/parking.hpp"

namespace adjoin::threads {

/// One message that a rank has posted and waits for; it lives on that rank's stack.
struct Posting {
  enum class State : int { waiting, done, failed };

  Message message;
  int owner = 0;  // the rank in the group that posted it
  std::source_location where;
  std::atomic<State> state = State::waiting;
  std::string error;  // where it failed

  int sender() const { return message.kind == Message::Kind::send ? owner : message.peer; }
  int receiver() const { return message.kind == Message::Kind::send ? message.peer : owner; }
  bool is_over() const { return state.load() != State::waiting; }
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

/// Moves the data of a matched pair, or fails both where type or length differ. The other rank's posting may be gone on
/// return.
void complete(Posting& send, Posting& receive);

}  // namespace adjoin::threads
