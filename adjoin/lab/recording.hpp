#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/element_type.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/launch.hpp"

namespace adjoin::lab {

/// One message that was sent and received. Ranks are those of the world, in whichever group it travelled.
struct RecordedMessage {
  int from = 0, to = 0;
  int tag = 0;  // kCollectiveTag where an algorithm sent it, not the user
  int64_t bytes = 0;
  ElementType type = ElementType::float32;
  int64_t step = 0;  // one more than the last step that either rank had behind it; the first is 1
  int64_t place_sent = 0, place_received = 0;  // of its exchange among the sender's and the receiver's, from 1
  double begin = 0, end = 0;  // seconds since the recording began: the sender's call began, the receiver's call ended
};

/// All messages of a run, by step, and within one by `from`, `to` and `place_sent`.
///
/// The order agrees with causality: a message that a rank had received, itself or through others, before it sent
/// another one is of a lower step. It is the same in each run of a program that sends the same messages, as long as each
/// rank calls from one thread; else a call counts as later than those of its rank that had ended when it began.
struct Recording {
  int ranks = 0;
  std::vector<RecordedMessage> messages;

  /// Messages, or their bytes, from one rank to another, or from or to any.
  static constexpr int kAny = -1;
  int64_t sent(int from, int to) const;
  int64_t bytes(int from = kAny, int to = kAny) const;
  int64_t sent_by(int rank) const { return sent(rank, kAny); }
  int64_t received_by(int rank) const { return sent(kAny, rank); }
  /// The last message's step; 0 where there is none.
  int64_t steps() const;
};

/// "step 1: 0 -> 4 (64 bytes)", a line a message.
std::string describe(const Recording& recording);

/// Runs `fn(world)` on `ranks` threads and returns every message that it sent: by send, recv, sendrecv and exchange, and
/// by algorithms that are carried out by messages. What the threads do without messages (their own collectives, split)
/// is not in it; messages before and after such a call are ordered all the same.
///
/// Throws: what launch_threads throws. Deadlocks and messages of unequal length are found at once, with every rank's
///         pending call.
Recording record(int ranks, const std::function<void(const Communicator& world)>& fn,
                 const LaunchOptions& options = {});

/// Records the messages of any world, also while it runs or where it fails. Each rank uses what watch() gives it.
class Recorder {
 public:
  explicit Recorder(int ranks);
  ~Recorder();
  Communicator watch(const Communicator& world) const;
  /// The messages whose send and receive have both ended until now.
  Recording recording() const;

 private:
  std::shared_ptr<class Log> log_;
};

}  // namespace adjoin::lab
