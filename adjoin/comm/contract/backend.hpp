#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/not_copied.hpp"
#include "adjoin/base/process_owner.hpp"
#include "adjoin/base/thread_owner.hpp"
#include "adjoin/comm/contract/call.hpp"

namespace adjoin {

/// A send that runs while its rank goes on. Its buffer must not be written before it has ended.
class [[nodiscard]] PendingSend : NotCopied {
 public:
  /// Waits. Where an exception destroys it before the message was received, it ends the world, since the receiver may never
  /// receive it.
  virtual ~PendingSend() = default;

  /// Returns when the message was received. Called by the thread that sent it.
  virtual void wait() = 0;
  /// Whether the message was received.
  virtual bool done() = 0;
};

/// A send with copies of its message and its call, which the caller of begin_send need not keep.
class OwnSend : public PendingSend {
 protected:
  OwnSend(const Message& message, const Call& call) : message_(message), call_(call) {
    call_.messages = {&message_, 1};
  }

  const ProcessOwner process_;  // in the child of a fork nobody waits for it
  const Message message_;
  Call call_;
};

/// One worker's view of one group: the complete contract of a transport.
///
/// Communicator has checked the calls. A transport must define five functions; it overrides run_collective for collectives that it
/// does better than messages do, and begin_send where it can. A backend belongs to the thread that uses it first; for_thread()
/// gives one for another thread. Blocking calls end with CommunicationError once the world is aborted.
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Posts all messages together and returns when all are done. A send is synchronous: it ends when it was received. The
  /// messages are those of `call`, or one step of it where it is a collective.
  virtual void exchange(std::span<const Message> messages, const Call& call) = 0;
  /// Posts a send of contiguous elements and returns at once. The default sends it with exchange, so it returns later and its
  /// result has nothing to wait for.
  virtual std::unique_ptr<PendingSend> begin_send(const Message& message, const Call& call) {
    class Sent final : public PendingSend {
     public:
      void wait() override {}
      bool done() override { return true; }
    };
    exchange({&message, 1}, call);
    return std::make_unique<Sent>();
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

  /// Whether its ranks are on several hosts, the same answer on all of them: then a rank that waits takes no core from another
  /// that computes.
  virtual bool spans_hosts() const { return false; }
  /// Whether the world was launched with comparison of calls (LaunchOptions::checked).
  virtual bool is_checked() const { return false; }
  /// Whether its reductions combine the ranks' elements in rank order, and 16-bit floats in float32, rounded once.
  virtual bool reduces_in_rank_order() const { return false; }
};

}  // namespace adjoin
