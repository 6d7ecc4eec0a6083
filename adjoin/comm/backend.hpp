#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "adjoin/base/buffer.hpp"
#include "adjoin/base/observer.hpp"
#include "adjoin/comm/reduction.hpp"

namespace adjoin {

/// The tags that users may give are 0 to kMaxTag.
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
  /// outermost first; buffer.count is their number. The caller keeps both alive. Empty: contiguous elements. Sender and
  /// receiver may describe the same elements by different boxes.
  std::span<const int64_t> sizes = {}, strides = {};
};

/// One worker's view of one group: the whole contract that a transport fulfils.
///
/// Arguments have been validated by Communicator. Five functions must be given; each collective has a default that runs
/// an algorithm (comm/algorithm) by `exchange`, and a transport overrides those that it does better.
/// A backend belongs to the thread that uses it first; for_thread() gives another to another thread. Blocking calls end with CommunicationError once the world is aborted.
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Posts all messages together and returns when all are done. A send is synchronous: it ends when it was received.
  virtual void exchange(std::span<const Message> messages) = 0;
  /// A backend for the given ranks of this group, in that order; called by its members only, this rank among them.
  virtual std::shared_ptr<Backend> subset(std::span<const int> ranks) = 0;
  /// Ends every worker's blocked and later calls with `reason`.
  virtual void abort(std::string_view reason) noexcept = 0;

  /// The same group for another thread of this rank, which is then known to be there until the backend dies. Threads
  /// use it one at a time; `is_for_any_thread` allows that they change. The default is this backend itself.
  virtual std::shared_ptr<Backend> for_thread(bool is_for_any_thread);
  /// rest(true), by the thread that it belongs to (ignored from others): it does nothing before another thread of its
  /// rank has called rest(false) for it. So deadlocks are found that other threads of the rank take part in.
  virtual void rest(bool rests) noexcept { static_cast<void>(rests); }
  /// Ends this rank's calls on other threads, because it is left by an exception; whether that can be done.
  virtual bool abandon() noexcept { return false; }
  /// As abort, because this rank fails with `reason`, of which nobody else of the rank may ever hear.
  virtual void fail(std::string_view reason) noexcept { abort(reason); }

  /// Whether the world was launched with calls compared (LaunchOptions::checked).
  virtual bool is_checked() const { return false; }
  /// Whether its reductions combine the ranks' elements in rank order, 16-bit floats in float32 rounded once.
  virtual bool reduces_in_rank_order() const { return false; }

  virtual void barrier();
  virtual void broadcast(Buffer buffer, int root);
  /// `out` is used on the root only; it may be `in` itself there.
  virtual void reduce(ConstBuffer in, Buffer out, Reduction reduction, int root);
  virtual void all_reduce(Buffer buffer, Reduction reduction);
  /// Rank r gives counts[r] elements; the root's `out` holds all, in rank order.
  virtual void gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root);
  virtual void scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root);
  virtual void all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts);
  /// `in` holds the blocks of all ranks in rank order; `out` is this rank's reduced block of counts[rank] elements.
  virtual void reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction);
  virtual void all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                          std::span<const int64_t> receive_counts);

  /// Says which call of the user what follows serves, until end_call(), and sets the call's place in the sequence.
  virtual void begin_call(Operation& operation) {
    operation.sequence = ++sequence_;
    call_ = &operation;
  }
  virtual void end_call() { call_ = nullptr; }

 protected:
  const Operation* call_ = nullptr;  // what this thread is in, for messages about it

 private:
  uint64_t sequence_ = 0;
};

}  // namespace adjoin
