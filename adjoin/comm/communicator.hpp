#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "adjoin/base/buffer.hpp"
#include "adjoin/comm/backend.hpp"
#include "adjoin/comm/call.hpp"
#include "adjoin/comm/collective.hpp"

namespace adjoin {

class AsyncCommunicator;

/// The operations of a group of workers, for `Group`, whose make(Call&&) carries them out: Communicator, with a call that
/// blocks until it is done, and AsyncCommunicator, with a handle.
///
/// Every call validates its arguments before anything is sent and throws InvalidArgument that names the rank, the
/// operation, what was expected and what came. Collectives are called by all ranks of the group in the same order with
/// arguments that agree; counts may differ per rank and may be zero.
template <class Group, class Result>
class Operations {
 public:
  using Where = adjoin::Where;
  using Counts = std::span<const int64_t>;

  /// Sends to rank `to`; ends when it was received. Zero elements are a message too.
  Result send(ConstBuffer in, int to, int tag = 0, Where where = Where::current()) const {
    const Message messages[] = {send_of(in, to, tag)};
    return make({.name = "send", .messages = messages, .where = where});
  }
  Result recv(Buffer out, int from, int tag = 0, Where where = Where::current()) const {
    const Message messages[] = {receive_of(out, from, tag)};
    return make({.name = "recv", .messages = messages, .where = where});
  }
  /// A send and a receive posted together, so that a ring of them does not deadlock.
  Result sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag = 0, Where where = Where::current()) const {
    const Message messages[] = {send_of(in, to, tag), receive_of(out, from, tag)};
    return make({.name = "sendrecv", .messages = messages, .where = where});
  }
  /// Messages posted together, of contiguous elements or of boxes.
  Result exchange(std::span<const Message> messages, Where where = Where::current()) const {
    return make({.name = "exchange", .messages = messages, .where = where});
  }

  Result barrier(Where where = Where::current()) const {
    return make({.collective = Collective::barrier, .where = where});
  }
  Result broadcast(Buffer buffer, int root, Where where = Where::current()) const {
    return make({.collective = Collective::broadcast, .in = buffer, .out = buffer, .root = root, .where = where});
  }
  /// `out` is used on the root only, where it may be `in` itself.
  Result reduce(ConstBuffer in, Buffer out, Reduction reduction, int root, Where where = Where::current()) const {
    return make(
        {.collective = Collective::reduce, .in = in, .out = out, .reduction = reduction, .root = root, .where = where});
  }
  Result all_reduce(Buffer buffer, Reduction reduction = Reduction::sum, Where where = Where::current()) const {
    return make(
        {.collective = Collective::all_reduce, .in = buffer, .out = buffer, .reduction = reduction, .where = where});
  }
  /// Rank r gives counts[r] elements; the root's `out` holds all in rank order. `counts` is the same on all ranks.
  Result gather(ConstBuffer in, Buffer out, Counts counts, int root, Where where = Where::current()) const {
    return make(
        {.collective = Collective::gather, .in = in, .out = out, .counts = counts, .root = root, .where = where});
  }
  Result scatter(ConstBuffer in, Buffer out, Counts counts, int root, Where where = Where::current()) const {
    return make(
        {.collective = Collective::scatter, .in = in, .out = out, .counts = counts, .root = root, .where = where});
  }
  /// As gather, and every rank gets all. `in` may be this rank's own block of `out`.
  Result all_gather(ConstBuffer in, Buffer out, Counts counts, Where where = Where::current()) const {
    return make({.collective = Collective::all_gather, .in = in, .out = out, .counts = counts, .where = where});
  }
  /// `in` holds the blocks of all ranks in rank order; `out` gets this rank's block, reduced over the ranks.
  /// `out` may be this rank's own block of `in`; the other blocks of `in` are left as they were.
  Result reduce_scatter(ConstBuffer in, Buffer out, Counts counts, Reduction reduction = Reduction::sum,
                        Where where = Where::current()) const {
    Call call{.collective = Collective::reduce_scatter, .in = in, .out = out, .counts = counts, .where = where};
    call.reduction = reduction;
    return make(std::move(call));
  }
  /// Block p of `in` (send_counts[p] elements) goes to rank p, block p of `out` (receive_counts[p]) comes from it.
  Result all_to_all(ConstBuffer in, Counts send_counts, Buffer out, Counts receive_counts,
                    Where where = Where::current()) const {
    Call call{.collective = Collective::all_to_all, .in = in, .out = out, .counts = send_counts, .where = where};
    call.receive_counts = receive_counts;
    return make(std::move(call));
  }

 private:
  Result make(Call&& call) const { return static_cast<const Group&>(*this).make(std::move(call)); }
};

/// One worker's handle on one group of workers: what users hold and pass around, by value. Copies share the group.
/// A call made after the world was aborted, or blocked while it is, throws CommunicationError with the reason.
class Communicator : public Operations<Communicator, void> {
 public:
  /// A group of this worker alone: every collective is the identity.
  Communicator();
  explicit Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Observer> observer = nullptr);

  int rank() const;
  int size() const;
  /// Whether calls are compared in this world: LaunchOptions::checked.
  bool checked() const;

  /// Any of the operations, as a value.
  void make(Call&& call) const;
  /// A send that goes on beside this rank, which waits for it later: recv, sendrecv or exchange on rank `to` gets it as any
  /// other. So ranks that send before each other receives do not wait for each other.
  std::unique_ptr<Sending> isend(ConstBuffer in, int to, int tag = 0, Where where = Where::current()) const;
  /// Adds to a call what this group knows, and checks it; make() does so too.
  void prepare(Call& call) const;

  /// The place of each rank of this group in the world that it was made from by subset and split. Nothing is sent.
  std::span<const int> world_ranks() const;
  /// What its calls name it by.
  const GroupIdentity& identity() const;

  /// Groups by color, ordered by key and then rank; called by all ranks. A negative color gives no group.
  std::optional<Communicator> split(int color, int key, Where where = Where::current()) const;
  /// The group of the given ranks of this one, in that order; called by its members only.
  Communicator subset(std::span<const int> ranks, Where where = Where::current()) const;

  /// This group for another thread of this rank, which may use it beside this thread as long as both are not in the
  /// same group's calls at once: give it a group of its own, made by split or subset. A communicator belongs to the
  /// thread that uses it first (calls from another throw InvalidArgument), so that a rank whose threads all wait is known
  /// to be stuck; a rank is not, while a communicator made by for_thread lives whose thread does not wait.
  Communicator for_thread() const;

  /// This group's asynchronous operations (async_communicator.hpp), on a group and a thread that the first call makes and
  /// this communicator keeps for as long as a copy of it lives: so a loop that overlaps makes nothing after its first step.
  /// Called by all ranks of the group. Communicators from observed_by, with_algorithm and deterministic share the group and
  /// the thread, each with its own observer and algorithms.
  AsyncCommunicator stream(Where where = Where::current()) const;

  /// Ends every worker of the world: their blocked and later calls throw CommunicationError with `reason`.
  void abort(std::string_view reason) const noexcept;

  /// This group with `observer` seeing every operation; groups made from it inherit the observer.
  Communicator observed_by(std::shared_ptr<Observer> observer) const;
  const std::shared_ptr<Observer>& observer() const;

  /// This group with one collective carried out by messages, by an algorithm of the catalogue (comm/algorithm): "tree",
  /// "ring" …, or "auto" for the quickest by formula. Called with the same arguments on all ranks. A pipelined algorithm
  /// works in pieces of `chunk` elements; 0 makes the whole message one, or with "auto" takes the best pieces.
  /// Throws: InvalidArgument that names the algorithms where there is none of this name
  Communicator with_algorithm(Collective collective, std::string_view algorithm, int64_t chunk = 0,
                              Where where = Where::current()) const;

  /// This group with reductions that give the same bits on every backend: each element is combined in rank order, 16-bit
  /// floats in float32 and rounded once. Threads always do so. Called on all ranks.
  /// Cost: under MPI an all-to-all, a local pass and an all-gather or gather instead of MPI's own reduction
  Communicator deterministic() const;

  /// What carries the calls out; and this group with another backend for it, for what wraps a communicator.
  const std::shared_ptr<Backend>& backend() const;
  Communicator carried_by(std::shared_ptr<Backend> backend) const;

 private:
  struct State;
  explicit Communicator(State state);
  void check_thread(const Call& call) const;
  void begin(Call& call) const;

  std::shared_ptr<State> state_;
};

}  // namespace adjoin
