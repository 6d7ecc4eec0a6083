#pragma once

#include <functional>
#include <memory>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// An operation that is running; copies of a handle refer to the same operation. The destructor of the last copy waits for it,
/// as the operation uses the caller's buffers: keep the handle for as long as the operation is to run beside you. Where an
/// exception destroys the last copy, the operation is ended too, and with it the world.
class [[nodiscard]] Handle {
 public:
  /// Returns when the operation is done. Called by the thread that made the AsyncCommunicator.
  /// Throws: what the operation threw, or an earlier one of the same AsyncCommunicator; InvalidArgument on another thread, or
  ///         where one operation waits for a later one that is not done
  void wait() const;
  bool done() const;

 private:
  friend class AsyncCommunicator;
  struct Owner;
  explicit Handle(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {}

  std::shared_ptr<Owner> owner_;
};

/// The operations of Communicator, carried out beside the caller's thread: each call returns at once with a handle.
///
/// They run one after another in the order of their calls, on their own thread and their own group, so they never meet the
/// calls of the group that they were made from. All ranks call them in the same order. Buffers belong to the operation until it
/// is done; counts, lists of messages and their boxes are copied. Each call checks its arguments and throws InvalidArgument.
/// The first error ends the world, and every later operation throws it too: otherwise ranks whose operations differ would pair
/// calls that do not belong together.
/// Communicator::stream() returns the AsyncCommunicator that a communicator keeps.
/// Cost: queueing a task; where one waits at once, the time of a blocking call and two thread switches.
class AsyncCommunicator : public Operations<AsyncCommunicator, Handle> {
 public:
  /// Called by all ranks of `group`, and used by the thread that `group` belongs to. Its thread lives until the last
  /// copy and the last handle are gone.
  /// Cost: that of Communicator::subset
  explicit AsyncCommunicator(const Communicator& group, Where where = Where::current());

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  /// Starts any of the operations, given as a value.
  Handle carry_out(Call&& call) const;
  /// Runs several calls in a row as one operation; `work` gets the group of the operations.
  Handle run(std::function<void(const Communicator& group)> work) const;

 private:
  friend class Handle;
  friend class Communicator;
  class Stream;
  AsyncCommunicator(Communicator group, std::shared_ptr<Stream> stream)
      : group_(std::move(group)), stream_(std::move(stream)) {}

  Communicator group_;  // the group on which the operations run
  std::shared_ptr<Stream> stream_;
};

}  // namespace adjoin
