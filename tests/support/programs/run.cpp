#include "tests/support/programs/run.hpp"

#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/async_communicator.hpp"
#include "tests/support/programs/oracle.hpp"
#include "tests/support/programs/random.hpp"

namespace adjoin::testing::programs {

namespace {

/// Makes the call of `rank` on a Communicator or AsyncCommunicator.
template <class Group>
auto call(const Step& step, const Group& group, int rank, Memory& memory) {
  const int size = group.size();
  switch (step.kind) {
    case Kind::broadcast:
      return group.broadcast(memory.out, step.root);
    case Kind::reduce:
      return group.reduce(memory.in, memory.out, step.reduction, step.root);
    case Kind::all_reduce:
      return group.all_reduce(memory.out, step.reduction);
    case Kind::gather:
      return group.gather(memory.in, memory.out, step.counts, step.root);
    case Kind::scatter:
      return group.scatter(memory.in, memory.out, step.counts, step.root);
    case Kind::all_gather:
      return group.all_gather(memory.in, memory.out, step.counts);
    case Kind::reduce_scatter:
      return group.reduce_scatter(memory.in, memory.out, step.counts, step.reduction);
    case Kind::all_to_all:
      return group.all_to_all(memory.in, memory.sends, memory.out, memory.receives);
    case Kind::message:
      return rank == step.from ? group.send(memory.in, step.to, step.tag) : group.recv(memory.out, step.from, step.tag);
    case Kind::ring:
      return group.sendrecv(memory.in, (rank + step.shift) % size, memory.out, (rank + size - step.shift) % size,
                            step.tag);
    case Kind::exchange:
      return group.exchange(memory.messages);
    default:
      return group.barrier();
  }
}

[[noreturn]] void fail(int exception) {
  if (exception == 0) throw InvalidArgument("the tank is empty");
  if (exception == 1) throw std::runtime_error("the tank is empty");
  throw CommunicationError("the tank is empty");
}

/// One thread of a rank: its groups, its operations under way, and the threads that it has started.
class Lane {
 public:
  Lane(const Program& program, int rank, int lane, const OnWrong& on_wrong)
      : program_(program), rank_(rank), lane_(lane), on_wrong_(on_wrong) {}

  void give(int group, Communicator communicator) { groups_.emplace(group, std::move(communicator)); }

  bool has_helpers() const { return !helpers_.empty(); }

  void run() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (program_.group_of(step).lane != lane_ || !program_.takes(rank_, step)) continue;
      take(step);
      free_if_last(step.group, i);
    }
  }

 private:
  struct Pending {
    const Step* step;
    Memory memory;
    std::optional<Handle> handle;
  };
  struct Helper {
    std::unique_ptr<Lane> lane;
    std::exception_ptr error;
    std::jthread thread;  // the first that ends
  };

  const Communicator& communicator(int group) const { return groups_.at(group); }
  uint64_t draw(uint64_t what) const { return mix(mix(program_.seed, what), static_cast<uint64_t>(rank_)); }

  void take(const Step& step) {
    const Group& group = program_.group_of(step);
    if (is_call(step.kind) || step.kind == Kind::fail) return group.is_stream ? begin(step) : call_now(step);
    switch (step.kind) {
      case Kind::split:
        return split(step);
      case Kind::subset:
        return give(step.made, communicator(step.group).subset(step.ranks));
      case Kind::with_algorithm:
        return give(step.made, communicator(step.group).with_algorithm(step.collective, step.algorithm, step.chunk));
      case Kind::deterministic:
        return give(step.made, communicator(step.group).deterministic());
      case Kind::stream:
        streams_.emplace(step.made, AsyncCommunicator(communicator(step.group)));
        return;
      case Kind::start_thread:
        return start_thread(step);
      case Kind::join_thread:
        return join_thread(step.made);
      case Kind::wait:
        return wait(step.target);
      default:
        std::this_thread::sleep_for(std::chrono::milliseconds(step.shift));
    }
  }

  void check(const Step& step, Memory& memory) {
    const Group& group = program_.group_of(step);
    const std::string text = difference(program_.seed, step, group.size(), group.rank_of(rank_), memory);
    if (!text.empty())
      on_wrong_("rank " + std::to_string(rank_) + " of the world, step " + describe(step) + ": " + text);
  }

  Memory memory_of(const Step& step) const {
    const Group& group = program_.group_of(step);
    return memory_for(program_.seed, step, group.size(), group.rank_of(rank_));
  }

  void call_now(const Step& step) {
    if (step.kind == Kind::fail) fail(step.shift);
    Memory memory = memory_of(step);
    call(step, communicator(step.group), program_.group_of(step).rank_of(rank_), memory);
    check(step, memory);
  }

  void begin(const Step& step) {
    const AsyncCommunicator& stream = streams_.at(step.group);
    if (step.kind == Kind::fail) {
      pending_[step.id].handle = stream.run([exception = step.shift](const Communicator&) { fail(exception); });
      pending_[step.id].step = &step;
      return;
    }
    Pending& pending = pending_[step.id];
    pending.step = &step;
    pending.memory = memory_of(step);
    const int rank = program_.group_of(step).rank_of(rank_);
    if (step.is_in_run)
      pending.handle =
          stream.run([&pending, rank](const Communicator& group) { call(*pending.step, group, rank, pending.memory); });
    else
      pending.handle = call(step, stream, rank, pending.memory);
  }

  void wait(int id) {
    const auto found = pending_.find(id);
    if (found == pending_.end()) return;  // a rank of a message that is not this one
    Pending& pending = found->second;
    if (draw(static_cast<uint64_t>(id)) % 4 == 0 && pending.step->kind != Kind::fail)
      pending.handle.reset();  // which waits
    else
      pending.handle->wait();
    if (is_call(pending.step->kind)) check(*pending.step, pending.memory);
    pending_.erase(found);
  }

  void split(const Step& step) {
    const Group& group = program_.group_of(step);
    const auto rank = static_cast<size_t>(group.rank_of(rank_)), size = static_cast<size_t>(group.size());
    const int color = step.ranks[rank];
    const auto part = communicator(step.group).split(color, step.ranks[size + rank]);
    if (part) give(step.made + color, *part);
  }

  void start_thread(const Step& step) {
    const Communicator& of = communicator(step.group);
    std::vector<int> all(static_cast<size_t>(of.size()));
    std::iota(all.begin(), all.end(), 0);
    Helper& helper = helpers_[step.made];
    helper.lane =
        std::make_unique<Lane>(program_, rank_, program_.groups[static_cast<size_t>(step.made)].lane, on_wrong_);
    helper.lane->give(step.made, of.subset(all).for_thread());
    helper.thread = std::jthread([&helper] {
      try {
        helper.lane->run();
        helper.lane.reset();
      } catch (...) {
        helper.error = std::current_exception();
      }
    });
  }

  void join_thread(int made) {
    const auto found = helpers_.find(made);
    if (found == helpers_.end()) return;
    found->second.thread.join();
    if (found->second.error) std::rethrow_exception(found->second.error);  // with its groups still held
    helpers_.erase(found);
  }

  /// Lets go of a group after its last step, on some ranks; the others keep it to the end.
  void free_if_last(int group, size_t step) {
    if (group == 0 || draw(static_cast<uint64_t>(group)) % 2 == 0) return;
    for (size_t later = step + 1; later < program_.steps.size(); ++later)
      if (program_.steps[later].group == group) return;
    groups_.erase(group);
    streams_.erase(group);
  }

  const Program& program_;
  const int rank_, lane_;
  const OnWrong& on_wrong_;
  std::map<int, Communicator> groups_;
  std::map<int, AsyncCommunicator> streams_;
  std::map<int, Pending> pending_;  // by the step's id
  std::map<int, Helper> helpers_;   // by their first group
};

}  // namespace

void run(const Program& program, const Communicator& world, const OnWrong& on_wrong) {
  Lane lane(program, world.rank(), 0, on_wrong);
  lane.give(0, world);
  try {
    lane.run();
  } catch (const std::exception& e) {
    if (lane.has_helpers()) world.abort("rank " + std::to_string(world.rank()) + ": " + e.what());  // they are joined
    if (program.wraps_errors && dynamic_cast<const CommunicationError*>(&e) != nullptr)
      throw std::runtime_error(std::string("the epoch failed: ") + e.what());
    throw;
  }
}

}  // namespace adjoin::testing::programs
