#include "adjoin/comm/async_communicator.hpp"

#include <exception>
#include <utility>
#include <vector>

#include "adjoin/comm/arguments.hpp"

namespace adjoin {

using namespace arguments;

namespace {

std::vector<int64_t> copy_of(std::span<const int64_t> counts) {
  return {counts.begin(), counts.end()};
}

}  // namespace

struct Handle::Owner {
  Owner(std::shared_ptr<Stream> on, std::shared_ptr<Stream::Task> of)
      : stream(std::move(on)), task(std::move(of)), exceptions(std::uncaught_exceptions()) {}
  ~Owner() { stream->release(task, std::uncaught_exceptions() > exceptions); }

  std::shared_ptr<Stream> stream;
  std::shared_ptr<Stream::Task> task;
  int exceptions;  // that were on their way when the operation began
};

Handle::Handle(std::shared_ptr<Stream> stream, std::shared_ptr<Stream::Task> task)
    : owner_(std::make_shared<Owner>(std::move(stream), std::move(task))) {}

void Handle::wait() const {
  owner_->stream->wait(owner_->task);
}
bool Handle::done() const {
  return owner_->stream->is_done(*owner_->task);
}

AsyncCommunicator::AsyncCommunicator(const Communicator& group, Where where)
    : stream_(std::make_shared<Stream>(group, where)) {}

CheckedCall AsyncCommunicator::new_call(std::string_view name, Where where) const {
  return CheckedCall(name, *stream_->group().backend(), /*observer=*/nullptr, where);
}

Handle AsyncCommunicator::run(std::function<void(const Communicator&)> work) const {
  return {stream_, stream_->submit(std::move(work))};
}

Handle AsyncCommunicator::send(ConstBuffer in, int to, int tag, Where where) const {
  check_send(new_call("send", where), in, to, tag);
  return run([=](const Communicator& group) { group.send(in, to, tag, where); });
}

Handle AsyncCommunicator::recv(Buffer out, int from, int tag, Where where) const {
  check_recv(new_call("recv", where), out, from, tag);
  return run([=](const Communicator& group) { group.recv(out, from, tag, where); });
}

Handle AsyncCommunicator::sendrecv(ConstBuffer in, int to, Buffer out, int from, int tag, Where where) const {
  const CheckedCall call = new_call("sendrecv", where);
  check_send(call, in, to, tag);
  check_recv(call, out, from, tag);
  call.check_apart(in, out);
  return run([=](const Communicator& group) { group.sendrecv(in, to, out, from, tag, where); });
}

Handle AsyncCommunicator::exchange(std::span<const Message> messages, Where where) const {
  check_exchange(new_call("exchange", where), messages);
  std::vector<std::vector<int64_t>> boxes;  // which the messages below point into
  std::vector<Message> copy(messages.begin(), messages.end());
  for (Message& message : copy) {
    message.sizes = boxes.emplace_back(message.sizes.begin(), message.sizes.end());
    message.strides = boxes.emplace_back(message.strides.begin(), message.strides.end());
  }
  return run([copy, boxes = std::make_shared<const std::vector<std::vector<int64_t>>>(std::move(boxes)),
              where](const Communicator& group) { group.exchange(copy, where); });
}

Handle AsyncCommunicator::barrier(Where where) const {
  return run([=](const Communicator& group) { group.barrier(where); });
}

Handle AsyncCommunicator::broadcast(Buffer buffer, int root, Where where) const {
  check_broadcast(new_call("broadcast", where), buffer, root);
  return run([=](const Communicator& group) { group.broadcast(buffer, root, where); });
}

Handle AsyncCommunicator::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root, Where where) const {
  check_reduce(new_call("reduce", where), in, out, reduction, root);
  return run([=](const Communicator& group) { group.reduce(in, out, reduction, root, where); });
}

Handle AsyncCommunicator::all_reduce(Buffer buffer, Reduction reduction, Where where) const {
  check_all_reduce(new_call("all_reduce", where), buffer, reduction);
  return run([=](const Communicator& group) { group.all_reduce(buffer, reduction, where); });
}

Handle AsyncCommunicator::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root,
                                 Where where) const {
  check_gather(new_call("gather", where), in, out, counts, root);
  return run([=, counts = copy_of(counts)](const Communicator& group) { group.gather(in, out, counts, root, where); });
}

Handle AsyncCommunicator::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root,
                                  Where where) const {
  check_scatter(new_call("scatter", where), in, out, counts, root);
  return run([=, counts = copy_of(counts)](const Communicator& group) { group.scatter(in, out, counts, root, where); });
}

Handle AsyncCommunicator::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Where where) const {
  check_all_gather(new_call("all_gather", where), in, out, counts);
  return run([=, counts = copy_of(counts)](const Communicator& group) { group.all_gather(in, out, counts, where); });
}

Handle AsyncCommunicator::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts,
                                         Reduction reduction, Where where) const {
  check_reduce_scatter(new_call("reduce_scatter", where), in, out, counts, reduction);
  return run([=, counts = copy_of(counts)](const Communicator& group) {
    group.reduce_scatter(in, out, counts, reduction, where);
  });
}

Handle AsyncCommunicator::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                                     std::span<const int64_t> receive_counts, Where where) const {
  check_all_to_all(new_call("all_to_all", where), in, send_counts, out, receive_counts);
  return run([=, sent = copy_of(send_counts), received = copy_of(receive_counts)](const Communicator& group) {
    group.all_to_all(in, sent, out, received, where);
  });
}

}  // namespace adjoin
