#include "adjoin/comm/communicator.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/algorithm_backend.hpp"
#include "adjoin/comm/checked_call.hpp"
#include "adjoin/comm/collective.hpp"
#include "adjoin/comm/thread_backend.hpp"

namespace adjoin {

using algorithm::total_of;

struct Communicator::State {
  std::shared_ptr<Backend> backend;
  std::shared_ptr<Observer> observer;
};

namespace {

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
  CheckedCall call("send", *state_->backend, state_->observer.get(), where);
  call.check_rank("peer", to);
  call.check_tag(tag);
  call.check_buffer("in", in);
  call.begin({.elements = in, .peer = to, .tag = tag});
  const Message message = send_of(in, to, tag);
  state_->backend->exchange({&message, 1});
}

void Communicator::recv(Buffer out, int from, int tag, Where where) const {
  CheckedCall call("recv", *state_->backend, state_->observer.get(), where);
  call.check_rank("peer", from);
  call.check_tag(tag);
  call.check_buffer("out", out);
  call.begin({.elements = out, .peer = from, .tag = tag});
  const Message message = receive_of(out, from, tag);
  state_->backend->exchange({&message, 1});
}

void Communicator::sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag, Where where) const {
  CheckedCall call("sendrecv", *state_->backend, state_->observer.get(), where);
  call.check_rank("peer", to);
  call.check_rank("peer", from);
  call.check_tag(tag);
  call.check_buffer("in", in);
  call.check_buffer("out", out);
  call.begin({.elements = in, .peer = to, .tag = tag});
  const Message messages[] = {send_of(in, to, tag), receive_of(out, from, tag)};
  state_->backend->exchange(messages);
}

void Communicator::exchange(std::span<const Message> messages, Where where) const {
  CheckedCall call("exchange", *state_->backend, state_->observer.get(), where);
  ConstBuffer sent{nullptr, 0, messages.empty() ? ElementType::float32 : messages[0].buffer.type};
  for (const Message& message : messages) {
    call.check_rank("peer", message.peer);
    call.check_tag(message.tag);
    call.check_buffer("buffer", message.buffer);
    if (message.kind == Message::Kind::send) sent.count += message.buffer.count;
  }
  call.begin({.elements = sent});
  state_->backend->exchange(messages);
}

void Communicator::barrier(Where where) const {
  CheckedCall call("barrier", *state_->backend, state_->observer.get(), where);
  call.begin({});
  state_->backend->barrier();
}

void Communicator::broadcast(Buffer buffer, int root, Where where) const {
  CheckedCall call("broadcast", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_buffer("buffer", buffer);
  call.begin({.elements = buffer, .root = root});
  state_->backend->broadcast(buffer, root);
}

void Communicator::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root, Where where) const {
  CheckedCall call("reduce", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_buffer("in", in);
  if (rank() == root) {
    call.check_elements("out", out, in.count);
    call.check_same_type(in, out);
  }
  call.begin({.elements = in, .root = root, .reduction = name(reduction)});
  state_->backend->reduce(in, out, reduction, root);
}

void Communicator::all_reduce(Buffer buffer, Reduction reduction, Where where) const {
  CheckedCall call("all_reduce", *state_->backend, state_->observer.get(), where);
  call.check_buffer("buffer", buffer);
  call.begin({.elements = buffer, .reduction = name(reduction)});
  state_->backend->all_reduce(buffer, reduction);
}

void Communicator::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root, Where where) const {
  CheckedCall call("gather", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_counts("counts", counts);
  call.check_elements("in", in, counts[static_cast<size_t>(rank())]);
  if (rank() == root) {
    call.check_elements("out", out, total_of(counts));
    call.check_same_type(in, out);
  }
  call.begin({.elements = in, .root = root, .counts = counts});
  state_->backend->gather(in, out, counts, root);
}

void Communicator::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root, Where where) const {
  CheckedCall call("scatter", *state_->backend, state_->observer.get(), where);
  call.check_rank("root", root);
  call.check_counts("counts", counts);
  call.check_elements("out", out, counts[static_cast<size_t>(rank())]);
  if (rank() == root) {
    call.check_elements("in", in, total_of(counts));
    call.check_same_type(in, out);
  }
  call.begin({.elements = out, .root = root, .counts = counts});
  state_->backend->scatter(in, out, counts, root);
}

void Communicator::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Where where) const {
  CheckedCall call("all_gather", *state_->backend, state_->observer.get(), where);
  call.check_counts("counts", counts);
  call.check_elements("in", in, counts[static_cast<size_t>(rank())]);
  call.check_elements("out", out, total_of(counts));
  call.check_same_type(in, out);
  call.begin({.elements = in, .counts = counts});
  state_->backend->all_gather(in, out, counts);
}

void Communicator::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction,
                                  Where where) const {
  CheckedCall call("reduce_scatter", *state_->backend, state_->observer.get(), where);
  call.check_counts("counts", counts);
  call.check_elements("in", in, total_of(counts));
  call.check_elements("out", out, counts[static_cast<size_t>(rank())]);
  call.check_same_type(in, out);
  call.begin({.elements = in, .reduction = name(reduction), .counts = counts});
  state_->backend->reduce_scatter(in, out, counts, reduction);
}

void Communicator::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                              std::span<const int64_t> receive_counts, Where where) const {
  CheckedCall call("all_to_all", *state_->backend, state_->observer.get(), where);
  call.check_counts("send_counts", send_counts);
  call.check_counts("receive_counts", receive_counts);
  call.check_elements("in", in, total_of(send_counts));
  call.check_elements("out", out, total_of(receive_counts));
  call.check_same_type(in, out);
  call.begin({.elements = in, .counts = send_counts, .receive_counts = receive_counts});
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
  CheckedCall call("subset", *state_->backend, /*observer=*/nullptr, where);
  for (const int rank : ranks) {
    call.check_rank("member", rank);
    if (std::count(ranks.begin(), ranks.end(), rank) > 1)
      call.fail("each member once", "rank " + std::to_string(rank) + " twice");
  }
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end())
    call.fail("this rank among the members", "a list without it");
  call.begin({});
  return Communicator(state_->backend->subset(ranks), state_->observer);
}

Communicator Communicator::for_thread() const {
  return Communicator(state_->backend->for_thread(/*is_for_any_thread=*/false), state_->observer);
}

Communicator Communicator::with_algorithm(Collective collective, std::string_view algorithm, int64_t chunk,
                                          Where where) const {
  const CheckedCall call("with_algorithm", *state_->backend, /*observer=*/nullptr, where);
  const std::string_view known = algorithm == "auto" ? "auto" : algorithm::known_name(collective, algorithm);
  if (known.empty())
    call.fail("an algorithm of " + std::string(name(collective)) + ": auto, " + algorithm::list_of_names(collective),
              "'" + std::string(algorithm) + "'");
  if (chunk < 0) call.fail("a chunk that is not negative", std::to_string(chunk));
  return Communicator(
      std::make_shared<AlgorithmBackend>(state_->backend, AlgorithmBackend::Choice{collective, known, chunk}),
      state_->observer);
}

const std::shared_ptr<Backend>& Communicator::backend() const {
  return state_->backend;
}

void Communicator::abort(std::string_view reason) const noexcept {
  state_->backend->abort(reason);
}

Communicator Communicator::observed_by(std::shared_ptr<Observer> observer) const {
  return Communicator(state_->backend, std::move(observer));
}

}  // namespace adjoin
