#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/thread_owner.hpp"
#include "adjoin/comm/contract/call.hpp"

namespace adjoin {

/// A call that has begun and that its rank waits for later. Until it has ended its buffers belong to it.
class [[nodiscard]] Pending : NotCopied {
 public:
  /// Waits. Where an exception destroys it before the call has ended, it ends the world, since the other ranks wait for this one.
  virtual ~Pending() = default;

  /// Returns when the call has ended. Called by the thread that its communicator belongs to.
  virtual void wait() = 0;
  /// Whether it has ended.
  virtual bool done() = 0;
};

/// One worker's view of one group: the complete contract of a transport.
///
/// Communicator has checked the calls. A transport must define five functions; it overrides run_collective for collectives that it
/// does better than messages do, and begin where it can. A backend belongs to the thread that uses it first; for_thread()
/// gives one for another thread. Blocking calls end with CommunicationError once the world is aborted.
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Posts all messages together and returns when all are done. A send is synchronous: it ends when it was received. The
  /// messages are those of `call`, or one step of it where it is a collective.
  virtual void exchange(std::span<const Message> messages, const Call& call) = 0;
  /// Begins a call, which then goes on while this rank does something else, and returns at once. None where calls are carried
  /// out in a rank's own time: Communicator then does so when the rank waits. Other calls of this group follow when it has
  /// ended, except those that only send. `call` and all that it points to live as long as the result, which is destroyed before
  /// its end only where an exception ends the world.
  virtual std::unique_ptr<Pending> begin(const Call& call) {
    static_cast<void>(call);
    return nullptr;
  }
  /// A backend for the given ranks of this group, in that order; called by these ranks only, including this one.
  virtual std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) = 0;
  /// Ends every worker's blocked and later calls with `reason`.
  virtual void abort(std::string_view reason) noexcept = 0;

  /// Carries out a collective. The default uses exchange and an algorithm of the catalogue (comm/algorithm): the one that the
  /// call names or, where it names none, the fastest by formula. An override leaves calls that name an algorithm to the
  /// default.
  virtual void run_collective(const Call& call);

  /// The same group for another thread of this rank. From then until the backend dies, that thread counts as one that may call.
  /// Threads use the backend one at a time; `is_for_any_thread` allows different threads. The default is this backend itself.
  virtual std::shared_ptr<Backend> for_thread(bool is_for_any_thread) {
    static_cast<void>(is_for_any_thread);
    return shared_from_this();
  }
  /// The thread that may use it; nullptr where any thread may.
  virtual ThreadOwner* owner() { return nullptr; }
  /// Called with true by the thread that owns the backend (ignored from others): that thread does nothing until another thread
  /// of its rank has called rest(false) for it. So deadlocks are also found in which other threads of the rank take part.
  virtual void rest(bool rests) noexcept { static_cast<void>(rests); }
  /// Ends the world because this rank fails and no other thread of the rank may ever learn of it: with `cause` or, where that
  /// is null, with an exception that is being thrown. False where the latter cannot be waited for; then nothing was done.
  virtual bool fail(std::exception_ptr cause) noexcept {
    if (cause) abort(message_of(cause));
    return cause != nullptr;
  }

  /// Whether it carries out this call on the memory of devices; else Communicator gives it copies on the host. The same answer on all
  /// ranks of a call.
  virtual bool takes_devices(const Call& call) const {
    static_cast<void>(call);
    return false;
  }
  /// Whether its ranks are on several hosts, the same answer on all of them: then a rank that waits takes no core from another
  /// that computes.
  virtual bool spans_hosts() const { return false; }
  /// Whether a collective that has begun goes on while its rank does something else, the same answer on all its ranks. Where it
  /// does not, it is carried out when all of them wait, so they must wait for it at the same place among their calls.
  virtual bool overlaps() const { return false; }
  /// Whether the world was launched with comparison of calls (LaunchOptions::checked).
  virtual bool is_checked() const { return false; }
  /// Whether its reductions combine the ranks' elements in rank order, and 16-bit floats in float32, rounded once.
  virtual bool reduces_in_rank_order() const { return false; }
};

}  // namespace adjoin
