#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/reduction.hpp"
#include "adjoin/comm/contract/collective.hpp"
#include "adjoin/comm/contract/where.hpp"

namespace adjoin {

/// Users may give tags from 0 to kMaxTag.
inline constexpr int kMaxTag = 30000;  // MPI promises 32767
/// The tag of the messages of collectives, which no user's message can match.
inline constexpr int kCollectiveTag = -1;

/// One send or one receive of a buffer, or of a box of strided memory.
struct Message {
  enum class Kind : uint8_t { send, receive };
  Kind kind = Kind::send;
  int peer = 0;
  Buffer buffer;  // a send only reads it
  int tag = 0;
  /// Where given, the elements are a box of strided memory that begins at buffer.data: `sizes` and `strides` in elements,
  /// outermost first; buffer.count is the number of elements. The caller keeps both lists alive. Empty: contiguous elements.
  /// Sender and receiver may describe the same elements by different boxes.
  std::span<const int64_t> sizes = {}, strides = {};

  bool is_send() const { return kind == Kind::send; }
};

inline Message send_of(ConstBuffer in, int to, int tag) {
  return {Message::Kind::send, to, {const_cast<void*>(in.data), in.count, in.type, in.device}, tag};
}
inline Message receive_of(Buffer out, int from, int tag) {
  return {Message::Kind::receive, from, out, tag};
}

/// A group of ranks, as all of its members see it.
struct GroupIdentity {
  uint64_t id = 0;                 // unique among the groups made from the same world; 0 is the world
  std::vector<int> world_ranks{};  // of its members, in their order
};

/// The ranks of a group of this size: 0, 1, …
std::vector<int> all_ranks(int size);

/// One call of one rank: Communicator makes it and checks it once; while it runs, backends, algorithms, observers and diagnoses
/// read it. It is stored on the caller's stack (for a call that was begun, with it), as is all that it points to.
struct Call {
  std::optional<Collective> collective = {};  // none: messages, or the making of a group
  std::string_view name = {};                 // "all_reduce", "send", "subset"

  ConstBuffer in = {};  // the same as `out` for a broadcast and an all_reduce, which work in place
  Buffer out = {};
  std::span<const int64_t> counts = {};          // of each rank, where they may differ; what an all_to_all sends
  std::span<const int64_t> receive_counts = {};  // of an all_to_all
  Reduction reduction = Reduction::sum;
  int root = -1;
  std::string_view moved_type = {};  // the caller's type, where the buffers' type only moves its elements: "int16"
  std::span<const Message> messages = {};  // of send, recv, sendrecv (which sends first) and exchange
  Where where = {};                        // in the caller's code

  // Set by Communicator.
  std::string_view algorithm = {};  // in the catalogue; "" is the backend's own
  int64_t chunk = 0;                // elements of a piece of a pipeline
  bool is_begun = false;            // its rank waits for it later
  bool is_staged = false;           // `data` of its buffers on devices are copies on the host
  int rank = 0, size = 1;           // of the group
  uint64_t sequence = 0;            // the number of this call among those of this rank on this group, from 1
  uint64_t meeting = 0;             // a collective's number among those of the group, the same on all ranks; 0: none
  const GroupIdentity* group = nullptr;

  /// What this rank gives, or what it gets in a scatter or a recv. For an exchange only the number of elements that it sends,
  /// without memory.
  ConstBuffer elements() const;
  int64_t bytes() const { return elements().bytes(); }
  /// Whether its elements are on a device, where it has none too: so it is the same on all ranks of a collective.
  bool is_on_device() const { return !is_staged && elements().device.kind != Device::Kind::cpu; }
  /// Whether it is messages, none of which it receives.
  bool only_sends() const;
  /// The one message that describes the call; nullptr for an exchange, which has any number, and where there is none.
  const Message* message() const { return messages.empty() || name == "exchange" ? nullptr : &messages[0]; }
};

/// What must be the same on all ranks that call a collective together, in a fixed size. The counts of an all_to_all are not
/// included: they differ between ranks and must match pairwise.
struct Signature {
  Collective collective = Collective::barrier;
  ElementType type = ElementType::float32;
  Reduction reduction = Reduction::sum;
  int32_t root = -1;
  uint64_t elements = 0;    // of each rank, or a hash of the ranks' counts
  uint64_t algorithm = 0;   // a hash of its name
  uint64_t moved_type = 0;  // the same
  Device::Kind device = Device::Kind::cpu;
  bool operator==(const Signature&) const = default;
};
Signature signature_of(const Call& call);

/// "all_reduce #14 (ring, sum, float32 x 1024) at trainer.cpp:88".
std::string describe(const Call& call);

/// "trainer.cpp:88".
std::string describe(const Where& where);

/// "float32 x 1024", "float32 x 1024 on cuda:1".
std::string describe(ConstBuffer buffer);

/// Sees every operation of the communicators that it is attached to. Counts, traces, time accounting and the flight record are
/// observers. It is called on the thread that makes the call: a worker's own thread, or that of its stream for asynchronous
/// calls. So an observer that several workers share, or a worker and its stream, must guard itself.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(const Call&) {}
  virtual void end(const Call&) {}
  /// A rank begins or ends to wait for an asynchronous operation, or for a call that it began earlier, whose begin() and end()
  /// were seen then: `begun` is that call, else nullptr.
  virtual void begin_wait(const Call* begun) { static_cast<void>(begun); }
  virtual void end_wait(const Call* begun) { static_cast<void>(begun); }
};

/// Reports a wait to an observer, where there is one, for as long as this object lives.
class ObservedWait : NotCopied {
 public:
  ObservedWait(Observer* observer, const Call* begun) : observer_(observer), begun_(begun) {
    if (observer_) observer_->begin_wait(begun_);
  }
  ~ObservedWait() {
    if (observer_) observer_->end_wait(begun_);
  }

 private:
  Observer* observer_;
  const Call* begun_;
};

}  // namespace adjoin
