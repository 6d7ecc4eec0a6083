#include "adjoin/comm/communicator.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/thread_backend.hpp"

namespace adjoin {

using algorithm::total_of;

struct Communicator::State {
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Observer> observer;
};

namespace {

std::string text(int64_t number) {
  return std::to_string(number);
}

/// One call of one operation: checks its arguments, and tells the backend and the observer of it.
class Call {
 public:
  using Where = std::source_location;

  Call(std::string_view name, Backend& backend, Observer* observer, Where where)
      : name_(name), backend_(backend), observer_(observer), where_(where) {}
  ~Call() {
    if (begun_ && observer_) observer_->end(operation_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Throws InvalidArgument that says where, what was expected and what came.
  [[noreturn]] void fail(const std::string& expected, const std::string& came) const {
    throw InvalidArgument(std::string(name_) + " on rank " + text(backend_.rank()) + " of " + text(backend_.size()) +
                          " at " + where_.file_name() + ":" + text(where_.line()) + ": expected " + expected +
                          ", got " + came);
  }

  void check_rank(const char* role, int rank) const {
    if (rank < 0 || rank >= backend_.size())
      fail(std::string("a ") + role + " from 0 to " + text(backend_.size() - 1), text(rank));
  }

  void check_tag(int tag) const {
    if (tag < 0 || tag > kMaxTag) fail("a tag from 0 to " + text(kMaxTag), text(tag));
  }

  void check_buffer(const char* role, ConstBuffer buffer) const {
    if (buffer.count < 0) fail(std::string("a count of '") + role + "' that is not negative", text(buffer.count));
    if (buffer.count > 0 && !buffer.data)
      fail(std::string("memory for ") + text(buffer.count) + " elements of '" + role + "'", "a null pointer");
    if (buffer.device.kind != Device::Kind::cpu)
      fail(std::string("'") + role + "' on the CPU", "a buffer on another device");
  }

  void check_elements(const char* role, ConstBuffer buffer, int64_t count) const {
    check_buffer(role, buffer);
    if (buffer.count != count) fail(text(count) + " elements of '" + role + "'", text(buffer.count));
  }

  void check_same_type(ConstBuffer in, ConstBuffer out) const {
    if (in.type != out.type) fail("one element type of 'in' and 'out'", both(in.type, out.type));
  }

  void check_reduction(Reduction reduction, ElementType type) const {
    if (is_defined(reduction, type)) return;
    const char* defined =
        reduction == Reduction::average ? "elements of floating point" : "elements of integers or bool";
    fail(std::string(defined) + " for " + std::string(adjoin::name(reduction)), std::string(adjoin::name(type)));
  }

  void check_counts(const char* role, std::span<const int64_t> counts) const {
    if (static_cast<int>(counts.size()) != backend_.size())
      fail(text(backend_.size()) + " numbers in '" + role + "'", text(static_cast<int64_t>(counts.size())));
    for (const int64_t count : counts)
      if (count < 0) fail(std::string("no negative number in '") + role + "'", text(count));
  }

  void begin(ConstBuffer of, int root = -1, int peer = -1, int tag = 0) {
    const uint64_t sequence = backend_.begin_call(where_);
    if (!observer_) return;
    operation_ = {.name = name_,
                  .rank = backend_.rank(),
                  .size = backend_.size(),
                  .count = of.count,
                  .type = of.type,
                  .root = root,
                  .peer = peer,
                  .tag = tag,
                  .sequence = sequence,
                  .where = where_};
    observer_->begin(operation_);
    begun_ = true;
  }

 private:
  static std::string both(ElementType in, ElementType out) {
    return std::string(name(in)) + " and " + std::string(name(out));
  }

  std::string_view name_;
  Backend& backend_;
  Observer* observer_;
  Where where_;
  Operation operation_;
  bool begun_ = false;
};

Message send_of(ConstBuffer in, int to, int tag) {
  // A send only reads.
  return {Message::Kind::send, to, {const_cast<void*>(in.data), in.count, in.type, in.device}, tag};
}

Message receive_of(Buffer out, int from, int tag) {
  return {Message::Kind::receive, from, out, tag};
}

}  // namespace

Communicator::Communicator() : Communicator(ThreadWorld(1).backend(0)) {}

Communicator::Communicator(std::shared_ptr<Backend> backend, std::shared_ptr<Observer> observer)
    : state_(std::make_shared<State>(State{std::move(backend), std::move(observer)})) {}

int Communicator::rank() const {
  return state_->backend->rank();
}
int Communicator::size() const {
  return state_->backend->size();
}

void Communicator::send(ConstBuffer in, int to, int tag, Where where) const {
  Call call("send", *state_->backend, state_->observer.get(), where);
  call.check_rank("peer", to);
  call.check_tag(tag);
  call.check_buffer("in", in);
  call.begin(in, -1, to, tag);
  const Message message = send_of(in, to, tag);
  state_->backend->exchange({&message, 1});
}

void Communicator::recv(Buffer out, int from, int tag, Where where) const {
  Call call("recv", *state_->backend, state_->observer.get(), where);
  call.check_rank("peer", from);
  call.check_tag(tag);
  call.check_buffer("out", out);
  call.begin(out, -1, from, tag);
  const Message message = receive_of(out, from, tag);
  state_->backend->exchange({&message, 1});
}

void Communicator::sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag, Where where) const {
  Call call("sendrecv", *state_->backend, state_->observer.get(), where);
  call.check_rank("peer", to);
  call.check_rank("peer", from);
  call.check_tag(tag);
  call.check_buffer("in", in);
  call.check_buffer("out", out);
  call.begin(in, -1, to, tag);
  const Message messages[] = {send_of(in, to, tag), receive_of(out, from, tag)};
  state_->backend->exchange(messages);
}

void Communicator::exchange(std::span<const Message> messages, Where where) const {
  Call call("exchange", *state_->backend, state_->observer.get(), where);
  ConstBuffer sent{nullptr, 0, messages.empty() ? ElementType::float32 : messages[0].buffer.type};
  for (const Message& message : messages) {
    call.check_rank("peer", message.peer);
    call.check_tag(message.tag);
    call.check_buffer("buffer", message.buffer);
    if (message.kind == Message::Kind::send) sent.count += message.buffer.count;
  }
  call.begin(sent);
  state_->backend->exchange(messages);
}

void Communicator::barrier(Where where) const {
  Call call("barrier", *state_->backend, state_->observer.get(), where);
  call.begin({});
  state_->backend->barrier();
}

void Communicator::broadcast(Buffer buffer, int root, Where where) const {
  Call call("broadcast", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_buffer("buffer", buffer);
  call.begin(buffer, root);
  state_->backend->broadcast(buffer, root);
}

void Communicator::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root, Where where) const {
  Call call("reduce", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_buffer("in", in);
  call.check_reduction(reduction, in.type);
  if (rank() == root) {
    call.check_elements("out", out, in.count);
    call.check_same_type(in, out);
  }
  call.begin(in, root);
  state_->backend->reduce(in, out, reduction, root);
}

void Communicator::all_reduce(Buffer buffer, Reduction reduction, Where where) const {
  Call call("all_reduce", *state_->backend, state_->observer.get(), where);
  call.check_buffer("buffer", buffer);
  call.check_reduction(reduction, buffer.type);
  call.begin(buffer);
  state_->backend->all_reduce(buffer, reduction);
}

void Communicator::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root, Where where) const {
  Call call("gather", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_counts("counts", counts);
  call.check_elements("in", in, counts[static_cast<size_t>(rank())]);
  if (rank() == root) {
    call.check_elements("out", out, total_of(counts));
    call.check_same_type(in, out);
  }
  call.begin(in, root);
  state_->backend->gather(in, out, counts, root);
}

void Communicator::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root, Where where) const {
  Call call("scatter", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_counts("counts", counts);
  call.check_elements("out", out, counts[static_cast<size_t>(rank())]);
  if (rank() == root) {
    call.check_elements("in", in, total_of(counts));
    call.check_same_type(in, out);
  }
  call.begin(out, root);
  state_->backend->scatter(in, out, counts, root);
}

void Communicator::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Where where) const {
  Call call("all_gather", *state_->backend, state_->observer.get(), where);
  call.check_counts("counts", counts);
  call.check_elements("in", in, counts[static_cast<size_t>(rank())]);
  call.check_elements("out", out, total_of(counts));
  call.check_same_type(in, out);
  call.begin(in);
  state_->backend->all_gather(in, out, counts);
}

void Communicator::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction,
                                  Where where) const {
  Call call("reduce_scatter", *state_->backend, state_->observer.get(), where);
  call.check_counts("counts", counts);
  call.check_elements("in", in, total_of(counts));
  call.check_elements("out", out, counts[static_cast<size_t>(rank())]);
  call.check_same_type(in, out);
  call.check_reduction(reduction, in.type);
  call.begin(in);
  state_->backend->reduce_scatter(in, out, counts, reduction);
}

void Communicator::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                              std::span<const int64_t> receive_counts, Where where) const {
  Call call("all_to_all", *state_->backend, state_->observer.get(), where);
  call.check_counts("send_counts", send_counts);
  call.check_counts("receive_counts", receive_counts);
  call.check_elements("in", in, total_of(send_counts));
  call.check_elements("out", out, total_of(receive_counts));
  call.check_same_type(in, out);
  call.begin(in);
  state_->backend->all_to_all(in, send_counts, out, receive_counts);
}

std::optional<Communicator> Communicator::split(int color, int key, Where where) const {
  const auto peers = static_cast<size_t>(size());
  const int32_t mine[] = {color, key};
  std::vector<int32_t> all(2 * peers);
  all_gather(const_buffer(mine), buffer(all), std::vector<int64_t>(peers, 2), where);
  if (color < 0) return std::nullopt;
  std::vector<int> members;
  for (size_t r = 0; r < peers; ++r)
    if (all[2 * r] == color) members.push_back(static_cast<int>(r));
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return all[2 * static_cast<size_t>(a) + 1] < all[2 * static_cast<size_t>(b) + 1];
  });
  return subset(members, where);
}

Communicator Communicator::subset(std::span<const int> ranks, Where where) const {
  Call call("subset", *state_->backend, state_->observer.get(), where);
  for (const int rank : ranks) {
    call.check_rank("member", rank);
    if (std::count(ranks.begin(), ranks.end(), rank) > 1)
      call.fail("each member once", "rank " + text(rank) + " twice");
  }
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
    call.fail("this rank among the members", "a list without it");
  state_->backend->begin_call(where);
  return Communicator(state_->backend->subset(ranks), state_->observer);
}

void Communicator::abort(std::string_view reason) const noexcept {
  state_->backend->abort(reason);
}

Communicator Communicator::observed_by(std::shared_ptr<Observer> observer) const {
  return Communicator(state_->backend, std::move(observer));
}

}  // namespace adjoin
