#include "adjoin/comm/async_communicator.hpp"

#include <exception>
#include <utility>
#include <vector>

namespace adjoin {

namespace {

/// A call with copies of all that it points to but the buffers.
struct OwnCall {
  explicit OwnCall(const Call& of)
      : counts(of.counts.begin(), of.counts.end()),
        receive_counts(of.receive_counts.begin(), of.receive_counts.end()),
        messages(of.messages.begin(), of.messages.end()),
        call(of) {
    for (Message& message : messages) {
      message.sizes = boxes.emplace_back(message.sizes.begin(), message.sizes.end());
      message.strides = boxes.emplace_back(message.strides.begin(), message.strides.end());
    }
    call.counts = counts;
    call.receive_counts = receive_counts;
    call.messages = messages;
  }
  OwnCall(const OwnCall&) = delete;
  OwnCall& operator=(const OwnCall&) = delete;

  std::vector<int64_t> counts, receive_counts;
  std::vector<Message> messages;
  std::vector<std::vector<int64_t>> boxes;
  Call call;
};

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

Handle AsyncCommunicator::make(Call&& call) const {
  stream_->group().prepare(call);
  return run([own = std::make_shared<const OwnCall>(call)](const Communicator& group) { group.make(Call(own->call)); });
}

Handle AsyncCommunicator::run(std::function<void(const Communicator&)> work) const {
  return {stream_, stream_->submit(std::move(work))};
}

}  // namespace adjoin
