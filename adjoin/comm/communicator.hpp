#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "adjoin/base/buffer.hpp"
#include "adjoin/comm/contract/backend.hpp"
#include "adjoin/comm/contract/call.hpp"
#include "adjoin/comm/contract/collective.hpp"

namespace adjoin {

class AsyncCommunicator;
class Begin;
class Turns;

/// The operations of a group of workers. `Group` carries them out with carry_out(Call&&): Communicator blocks until the operation is
/// done, Begin returns what is pending, and AsyncCommunicator a handle.
///
/// Every call checks its arguments before anything is sent, and throws InvalidArgument that names the rank, the operation, what
/// was expected and what came. All ranks of the group call the same collectives in the same order with arguments that agree;
/// counts may differ per rank and may be zero.
template <class Group, class Result>
class Operations {
 public:
  using Where = adjoin::Where;
  using Counts = std::span<const int64_t>;

  /// Sends to rank `to`; ends when the message was received. Zero elements are a message too.
  Result send(ConstBuffer in, int to, int tag = 0, Where where = Where::current()) const {
    const Message messages[] = {send_of(in, to, tag)};
    return carry_out({.name = "send", .messages = messages, .where = where});
  }
  Result recv(Buffer out, int from, int tag = 0, Where where = Where::current()) const {
    const Message messages[] = {receive_of(out, from, tag)};
    return carry_out({.name = "recv", .messages = messages, .where = where});
  }
  /// A send and a receive posted together, so that ranks in a ring can call it without deadlock.
  Result sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag = 0, Where where = Where::current()) const {
    const Message messages[] = {send_of(in, to, tag), receive_of(out, from, tag)};
    return carry_out({.name = "sendrecv", .messages = messages, .where = where});
  }
  /// Messages posted together, of contiguous elements or of boxes.
  Result exchange(std::span<const Message> messages, Where where = Where::current()) const {
    return carry_out({.name = "exchange", .messages = messages, .where = where});
  }

  Result barrier(Where where = Where::current()) const {
    return carry_out({.collective = Collective::barrier, .where = where});
  }
  Result broadcast(Buffer buffer, int root, Where where = Where::current()) const {
    return carry_out({.collective = Collective::broadcast, .in = buffer, .out = buffer, .root = root, .where = where});
  }
  /// `out` is used on the root only, where it may be `in` itself.
  Result reduce(ConstBuffer in, Buffer out, Reduction reduction, int root, Where where = Where::current()) const {
    return carry_out(
        {.collective = Collective::reduce, .in = in, .out = out, .reduction = reduction, .root = root, .where = where});
  }
  Result all_reduce(Buffer buffer, Reduction reduction = Reduction::sum, Where where = Where::current()) const {
    return carry_out(
        {.collective = Collective::all_reduce, .in = buffer, .out = buffer, .reduction = reduction, .where = where});
  }
  /// Rank r gives counts[r] elements; the root's `out` holds all in rank order. `counts` is the same on all ranks.
  Result gather(ConstBuffer in, Buffer out, Counts counts, int root, Where where = Where::current()) const {
    return carry_out(
        {.collective = Collective::gather, .in = in, .out = out, .counts = counts, .root = root, .where = where});
  }
  Result scatter(ConstBuffer in, Buffer out, Counts counts, int root, Where where = Where::current()) const {
    return carry_out(
        {.collective = Collective::scatter, .in = in, .out = out, .counts = counts, .root = root, .where = where});
  }
  /// As gather, but every rank gets all blocks. `in` may be this rank's own block of `out`.
  Result all_gather(ConstBuffer in, Buffer out, Counts counts, Where where = Where::current()) const {
    return carry_out({.collective = Collective::all_gather, .in = in, .out = out, .counts = counts, .where = where});
  }
  /// `in` holds the blocks of all ranks in rank order; `out` gets this rank's block, reduced over the ranks. `out` may be this
  /// rank's own block of `in`; the other blocks of `in` are not changed.
  Result reduce_scatter(ConstBuffer in, Buffer out, Counts counts, Reduction reduction = Reduction::sum,
                        Where where = Where::current()) const {
    Call call{.collective = Collective::reduce_scatter, .in = in, .out = out, .counts = counts, .where = where};
    call.reduction = reduction;
    return carry_out(std::move(call));
  }
  /// Block p of `in` (send_counts[p] elements) goes to rank p, block p of `out` (receive_counts[p]) comes from it.
  Result all_to_all(ConstBuffer in, Counts send_counts, Buffer out, Counts receive_counts,
                    Where where = Where::current()) const {
    Call call{.collective = Collective::all_to_all, .in = in, .out = out, .counts = send_counts, .where = where};
    call.receive_counts = receive_counts;
    return carry_out(std::move(call));
  }

 private:
  Result carry_out(Call&& call) const { return static_cast<const Group&>(*this).carry_out(std::move(call)); }
};

/// One worker's handle on one group of workers: users hold it and pass it around by value. Copies share the group. A call that
/// is made or blocked after the world was aborted throws CommunicationError with the reason.
class Communicator : public Operations<Communicator, void> {
 public:
  /// A group of this worker alone: every collective is the identity.
  Communicator();
  explicit Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Observer> observer = nullptr);

  int rank() const;
  int size() const;
  /// Whether the calls of all ranks are compared in this world: LaunchOptions::checked.
  bool checked() const;

  /// Any of the operations, given as a value.
  void carry_out(Call&& call) const;
  /// The same operations, each of which begins and is waited for later: `const auto sum = group.begin().all_reduce(x);`, and
  /// then `sum->wait();`.
  Begin begin() const;
  /// As begin().send(). Rank `to` receives it by recv, sendrecv or exchange like any other message. So ranks that all send before
  /// they receive do not wait for each other.
  std::unique_ptr<Pending> isend(ConstBuffer in, int to, int tag = 0, Where where = Where::current()) const;
  /// Throws: InvalidArgument that names the calls that this rank has begun, on this group or those made from it, and that have
  ///         neither ended nor been waited for
  void require_nothing_begun() const;
  /// Adds to a call what this group knows, and checks it; carry_out() does so itself.
  void fill_and_check(Call& call) const;

  /// The rank of each member of this group in the world that it was made from by subset and split. Nothing is sent.
  std::span<const int> world_ranks() const;
  /// What identifies this group in its calls.
  const GroupIdentity& identity() const;

  /// Groups by color, ordered by key and then rank; called by all ranks. A negative color gives no group.
  std::optional<Communicator> split(int color, int key, Where where = Where::current()) const;
  /// The group of the given ranks of this one, in that order; called by its members only.
  Communicator subset(std::span<const int> ranks, Where where = Where::current()) const;

  /// This group for another thread of this rank. Both threads may use it, as long as they are not in calls of the same group at
  /// once: otherwise give the thread its own group, made by split or subset. A communicator belongs to the thread that uses it
  /// first (calls from another thread throw InvalidArgument). So a rank whose threads all wait is known to be stuck; it is not
  /// considered stuck while there is a communicator made by for_thread whose thread does not wait.
  Communicator for_thread() const;

  /// This group's asynchronous operations (async_communicator.hpp). The first call makes their group and thread, and this
  /// communicator keeps them for as long as a copy of it lives: so a loop that overlaps makes nothing after its first step.
  /// Called by all ranks of the group. Communicators made by observed_by, with_algorithm and deterministic share the group and
  /// the thread, each with its own observer and algorithms.
  AsyncCommunicator stream(Where where = Where::current()) const;

  /// Ends every worker of the world: their blocked and later calls throw CommunicationError with `reason`.
  void abort(std::string_view reason) const noexcept;

  /// This group with `observer`, which sees every operation; groups made from it inherit the observer.
  Communicator observed_by(std::shared_ptr<Observer> observer) const;
  const std::shared_ptr<Observer>& observer() const;

  /// This group with one collective carried out by messages, with an algorithm of the catalogue (comm/algorithm): "tree",
  /// "ring" …, or "auto" for the fastest by formula. Called with the same arguments on all ranks. A pipelined algorithm works
  /// in pieces of `chunk` elements; 0 means one piece for the whole message, or with "auto" the best size of a piece.
  /// Throws: InvalidArgument that lists the algorithms where there is none of this name
  Communicator with_algorithm(Collective collective, std::string_view algorithm, int64_t chunk = 0,
                              Where where = Where::current()) const;

  /// This group with reductions that give the same bits on every backend: each element is combined in rank order, and 16-bit
  /// floats are combined in float32 and rounded once. The thread backend always does so. Called on all ranks.
  /// Cost: under MPI an all-to-all, a local pass and an all-gather or gather instead of MPI's own reduction
  Communicator deterministic() const;

  /// The backend that carries out the calls; and this group with another backend, for classes that wrap one.
  const std::shared_ptr<Backend>& backend() const;
  Communicator carried_by(std::shared_ptr<Backend> backend) const;

 private:
  struct State;
  explicit Communicator(State state);
  class Begun;
  friend class Begin;
  std::unique_ptr<Pending> begin(Call&& call) const;
  void check_thread(const Call& call, std::string_view wait = "") const;
  void number(Call& call) const;
  void hand_over(const Call& call) const;
  void end_begun(uint64_t before) const;
  Turns* turns() const;

  std::shared_ptr<State> state_;
};

/// Begins the operations of a group. Buffers belong to an operation until it has ended; counts, lists of messages and their boxes
/// are copied. Pending::wait() returns when it has ended, and so does the destructor.
///
/// The calls of a group happen in the order in which they were begun, whoever waits first, and a call that is made or waited for
/// first ends all that were begun before it on this group; only what merely sends holds up no other call. Between hosts, where
/// each rank is on another one, a begun call goes on while its rank computes. Elsewhere it is carried out within the first of
/// these calls, as moving the data would take a core from a rank in any case.
class Begin : public Operations<Begin, std::unique_ptr<Pending>> {
 public:
  explicit Begin(Communicator group) : group_(std::move(group)) {}
  std::unique_ptr<Pending> carry_out(Call&& call) const { return group_.begin(std::move(call)); }

 private:
  Communicator group_;
};

}  // namespace adjoin
