#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/thread_owner.hpp"
#include "adjoin/comm/call.hpp"

namespace adjoin {

/// A send beside which its rank goes on. Its buffer is not written before it has ended.
class [[nodiscard]] Sending {
 public:
  Sending() = default;
  /// Waits. Where an exception ends it before it was received, it ends the world, since that rank may never receive.
  virtual ~Sending() = default;
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;

  /// Returns when it was received. Called by the thread that sent.
  virtual void wait() = 0;
  /// Whether it was.
  virtual bool done() = 0;
};

/// One worker's view of one group: the whole contract that a transport fulfils.
///
/// Calls have been checked by Communicator. Five functions must be given; a transport overrides carry_out for the
/// collectives that it does better than messages do, and begin_send where it can.
/// A backend belongs to the thread that uses it first; for_thread() gives another to another thread. Blocking calls end
/// with CommunicationError once the world is aborted.
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  virtual ~Backend() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Posts all messages together and returns when all are done. A send is synchronous: it ends when it was received.
  /// They are those of `call`, or a step of it where it is a collective.
  virtual void exchange(std::span<const Message> messages, const Call& call) = 0;
  /// Posts a send of contiguous elements and returns at once. The default sends it as exchange does, so it returns later,
  /// with nothing to wait for.
  virtual std::unique_ptr<Sending> begin_send(const Message& message, const Call& call) {
    class Sent final : public Sending {
     public:
      void wait() override {}
      bool done() override { return true; }
    };
    exchange({&message, 1}, call);
    return std::make_unique<Sent>();
  }
  /// A backend for the given ranks of this group, in that order; called by its members only, this rank among them.
  virtual std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) = 0;
  /// Ends every worker's blocked and later calls with `reason`.
  virtual void abort(std::string_view reason) noexcept = 0;

  /// Carries a collective out. The default does so by exchange, by the algorithm of the catalogue (comm/algorithm) that
  /// the call names or, where it names none, the quickest by formula; whoever overrides it leaves calls that name one to it.
  virtual void carry_out(const Call& call);

  /// The same group for another thread of this rank, which is then known to be there until the backend dies. Threads
  /// use it one at a time; `is_for_any_thread` allows that they change. The default is this backend itself.
  virtual std::shared_ptr<Backend> for_thread(bool is_for_any_thread) {
    static_cast<void>(is_for_any_thread);
    return shared_from_this();
  }
  /// The thread that may use it; nullptr where any may.
  virtual ThreadOwner* owner() { return nullptr; }
  /// rest(true), by the thread that it belongs to (ignored from others): it does nothing before another thread of its
  /// rank has called rest(false) for it. So deadlocks are found that other threads of the rank take part in.
  virtual void rest(bool rests) noexcept { static_cast<void>(rests); }
  /// Ends the world because this rank fails, of which nobody else of the rank may ever hear: with `cause` or, where that
  /// is null, with an exception that is on its way. False where the latter cannot be waited for, and nothing was done.
  virtual bool fail(std::exception_ptr cause) noexcept {
    if (cause) abort(message_of(cause));
    return cause != nullptr;
  }

  /// Whether its ranks are on several hosts, the same answer on all of them: then one that waits takes no core from
  /// another that computes.
  virtual bool spans_hosts() const { return false; }
  /// Whether the world was launched with calls compared (LaunchOptions::checked).
  virtual bool is_checked() const { return false; }
  /// Whether its reductions combine the ranks' elements in rank order, 16-bit floats in float32 rounded once.
  virtual bool reduces_in_rank_order() const { return false; }
};

}  // namespace adjoin
