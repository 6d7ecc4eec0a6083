#pragma once

#include <functional>
#include <memory>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// An operation under way; copies are the same operation. The end of the last copy waits for it, as the operation uses
/// the caller's buffers: keep the handle for as long as it is to go on beside you. Where an exception ends the last copy,
/// the operation is ended too, and with it the world's.
class [[nodiscard]] Handle {
 public:
  /// Returns when the operation is done. Called by the thread that made the AsyncCommunicator.
  /// Throws: what the operation has thrown, or an earlier one of the same AsyncCommunicator; InvalidArgument on another
  ///         thread, or where one operation waits for a later one, while it is not done
  void wait() const;
  bool done() const;

 private:
  friend class AsyncCommunicator;
  struct Owner;
  explicit Handle(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {}

  std::shared_ptr<Owner> owner_;
};

/// The operations of Communicator, carried out beside the caller's thread: each returns at once with a handle.
///
/// They run one after the other in the order of their calls, on a thread and a group of their own, so they never meet the
/// calls of the group that they were made from. All ranks call them in the same order. Buffers belong to the operation
/// until it is done; counts, lists of messages and their boxes are copied. Arguments are checked in the call, which throws
/// InvalidArgument. The first error ends the world, and is that of every later operation: ranks whose operations differ
/// would else pair calls that do not belong together.
/// Communicator::stream() gives the one that a communicator keeps.
/// Cost: a queued task; a blocking call's time and two changes of thread, where one waits at once.
class AsyncCommunicator : public Operations<AsyncCommunicator, Handle> {
 public:
  /// Called by all ranks of `group`, and used by the thread that `group` belongs to. Its thread lives until the last
  /// copy and the last handle are gone.
  /// Cost: that of subset
  explicit AsyncCommunicator(const Communicator& group, Where where = Where::current());

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  /// Any of the operations, as a value.
  Handle make(Call&& call) const;
  /// Any calls in a row as one operation; `work` gets the operations' group.
  Handle run(std::function<void(const Communicator& group)> work) const;

 private:
  friend class Handle;
  friend class Communicator;
  class Stream;
  AsyncCommunicator(Communicator group, std::shared_ptr<Stream> stream)
      : group_(std::move(group)), stream_(std::move(stream)) {}

  Communicator group_;  // of the operations
  std::shared_ptr<Stream> stream_;
};

}  // namespace adjoin
