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

/// One message that was sent and received. Ranks are those of the world, whatever group the message was sent in.
struct RecordedMessage {
  int from = 0, to = 0;
  int tag = 0;  // kCollectiveTag where an algorithm sent it, not the user
  int64_t bytes = 0;
  ElementType type = ElementType::float32;
  int64_t step = 0;  // one more than the last step that either rank had completed; the first is 1
  int64_t place_sent = 0, place_received = 0;  // number of its exchange among the sender's and the receiver's, from 1
  double begin = 0, end = 0;  // seconds since the recording began: the sender's call began, the receiver's call ended
};

/// All messages of a run, ordered by step and, within a step, by `from`, `to` and `place_sent`.
///
/// The order agrees with causality: if a rank had received a message, directly or through others, before it sent another one,
/// the first has a lower step. The order is the same in each run of a program that sends the same messages, as long as each
/// rank calls from one thread. Otherwise a call counts as later than those calls of its rank that had ended when it began.
struct Recording {
  int ranks = 0;
  std::vector<RecordedMessage> messages;

  /// The number of messages, or their bytes, from one rank or any to another or any.
  static constexpr int kAny = -1;
  int64_t sent(int from, int to) const;
  int64_t bytes(int from = kAny, int to = kAny) const;
  int64_t sent_by(int rank) const { return sent(rank, kAny); }
  int64_t received_by(int rank) const { return sent(kAny, rank); }
  /// The step of the last message; 0 where there is none.
  int64_t steps() const;
};

/// "step 1: 0 -> 4 (64 bytes)", one line per message.
std::string describe(const Recording& recording);

/// Runs `fn(world)` on `ranks` threads and returns every message that was sent: by send, recv, sendrecv and exchange, and by
/// algorithms that are carried out by messages. What the threads do without messages (their own collectives, split) is not
/// included, but messages before and after such a call are still ordered correctly.
///
/// Throws: what launch_threads throws. Deadlocks and messages of unequal length are found at once, and reported with every
///         rank's pending call.
Recording record(int ranks, const std::function<void(const Communicator& world)>& fn,
                 const LaunchOptions& options = {});

/// Records the messages of any world, also while it runs or after it has failed. Each rank uses the communicator that watch()
/// returns.
class Recorder {
 public:
  explicit Recorder(int ranks);
  ~Recorder();
  Communicator watch(const Communicator& world) const;
  /// The messages whose send and receive have both ended so far.
  Recording recording() const;

 private:
  std::shared_ptr<class Log> log_;
};

}  // namespace adjoin::lab
