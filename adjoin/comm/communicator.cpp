#include "adjoin/comm/communicator.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/comm/algorithm/algorithm_backend.hpp"
#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/arguments.hpp"
#include "adjoin/comm/checked_call.hpp"
#include "adjoin/comm/threads/thread_backend.hpp"

namespace adjoin {

using namespace arguments;

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
bool Communicator::checked() const {
  return state_->backend->is_checked();
}

CheckedCall Communicator::new_call(std::string_view name, Where where) const {
  return CheckedCall(name, *state_->backend, state_->observer.get(), where);
}

void Communicator::send(ConstBuffer in, int to, int tag, Where where) const {
  CheckedCall call = new_call("send", where);
  check_send(call, in, to, tag);
  call.begin({.elements = in, .peer = to, .tag = tag});
  const Message message = send_of(in, to, tag);
  state_->backend->exchange({&message, 1});
}

void Communicator::recv(Buffer out, int from, int tag, Where where) const {
  CheckedCall call = new_call("recv", where);
  check_recv(call, out, from, tag);
  call.begin({.elements = out, .peer = from, .tag = tag});
  const Message message = receive_of(out, from, tag);
  state_->backend->exchange({&message, 1});
}

void Communicator::sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag, Where where) const {
  CheckedCall call = new_call("sendrecv", where);
  check_send(call, in, to, tag);
  check_recv(call, out, from, tag);
  call.check_apart(in, out);
  call.begin({.elements = in, .peer = to, .tag = tag});
  const Message messages[] = {send_of(in, to, tag), receive_of(out, from, tag)};
  state_->backend->exchange(messages);
}

void Communicator::exchange(std::span<const Message> messages, Where where) const {
  CheckedCall call = new_call("exchange", where);
  check_exchange(call, messages);
  ConstBuffer sent{nullptr, 0, messages.empty() ? ElementType::float32 : messages[0].buffer.type};
  for (const Message& message : messages)
    if (message.kind == Message::Kind::send) sent.count += message.buffer.count;
  call.begin({.elements = sent});
  state_->backend->exchange(messages);
}

void Communicator::barrier(Where where) const {
  CheckedCall call = new_call("barrier", where);
  call.begin({});
  state_->backend->barrier();
}

void Communicator::broadcast(Buffer buffer, int root, Where where) const {
  CheckedCall call = new_call("broadcast", where);
  check_broadcast(call, buffer, root);
  call.begin({.elements = buffer, .root = root});
  state_->backend->broadcast(buffer, root);
}

void Communicator::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root, Where where) const {
  CheckedCall call = new_call("reduce", where);
  check_reduce(call, in, out, reduction, root);
  call.begin({.elements = in, .root = root, .reduction = name(reduction)});
  state_->backend->reduce(in, out, reduction, root);
}

void Communicator::all_reduce(Buffer buffer, Reduction reduction, Where where) const {
  CheckedCall call = new_call("all_reduce", where);
  check_all_reduce(call, buffer, reduction);
  call.begin({.elements = buffer, .reduction = name(reduction)});
  state_->backend->all_reduce(buffer, reduction);
}

void Communicator::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root, Where where) const {
  CheckedCall call = new_call("gather", where);
  check_gather(call, in, out, counts, root);
  call.begin({.elements = in, .root = root, .counts = counts});
  state_->backend->gather(in, out, counts, root);
}

void Communicator::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root, Where where) const {
  CheckedCall call = new_call("scatter", where);
  check_scatter(call, in, out, counts, root);
  call.begin({.elements = out, .root = root, .counts = counts});
  state_->backend->scatter(in, out, counts, root);
}

void Communicator::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Where where) const {
  CheckedCall call = new_call("all_gather", where);
  check_all_gather(call, in, out, counts);
  call.begin({.elements = in, .counts = counts});
  state_->backend->all_gather(in, out, counts);
}

void Communicator::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction,
                                  Where where) const {
  CheckedCall call = new_call("reduce_scatter", where);
  check_reduce_scatter(call, in, out, counts, reduction);
  call.begin({.elements = in, .reduction = name(reduction), .counts = counts});
  state_->backend->reduce_scatter(in, out, counts, reduction);
}

void Communicator::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                              std::span<const int64_t> receive_counts, Where where) const {
  CheckedCall call = new_call("all_to_all", where);
  check_all_to_all(call, in, send_counts, out, receive_counts);
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

Communicator Communicator::deterministic() const {
  std::shared_ptr<Backend> backend = state_->backend;
  if (!backend->reduces_in_rank_order())
    for (const Collective c : {Collective::reduce, Collective::all_reduce, Collective::reduce_scatter})
      backend = std::make_shared<AlgorithmBackend>(
          backend, AlgorithmBackend::Choice{.collective = c, .algorithm = AlgorithmBackend::kRankOrder});
  return Communicator(backend, state_->observer);
}

const std::shared_ptr<Backend>& Communicator::backend() const {
  return state_->backend;
}

const std::shared_ptr<Observer>& Communicator::observer() const {
  return state_->observer;
}

void Communicator::abort(std::string_view reason) const noexcept {
  state_->backend->abort(reason);
}

Communicator Communicator::observed_by(std::shared_ptr<Observer> observer) const {
  return Communicator(state_->backend, std::move(observer));
}

}  // namespace adjoin
