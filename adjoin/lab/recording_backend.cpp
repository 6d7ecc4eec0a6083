#include "adjoin/lab/recording_backend.hpp"

#include <utility>

namespace adjoin::lab {

RecordingBackend::RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Log> log, RecordedGroup group)
    : ForwardingBackend(std::move(inner)), log_(std::move(log)), group_(std::move(group)) {}

void RecordingBackend::exchange(std::span<const Message> messages, const Call& call) {
  const Log::Id id = log_->begin_exchange(group_, world_rank(), messages);
  inner().exchange(messages, call);
  log_->end(id);
}

std::unique_ptr<PendingSend> RecordingBackend::begin_send(const Message& message, const Call& call) {
  const Log::Id id = log_->begin_exchange(group_, world_rank(), {&message, 1});
  std::unique_ptr<PendingSend> sending = inner().begin_send(message, call);
  log_->end(id);
  return sending;
}

std::shared_ptr<Backend> RecordingBackend::subset(std::span<const int> ranks, const Call& call) {
  RecordedGroup part;
  for (const int rank : ranks) part.members.push_back(group_.members[static_cast<size_t>(rank)]);
  part.name = log_->name_subset(group_, world_rank(), part.members);
  return std::make_shared<RecordingBackend>(inner().subset(ranks, call), log_, std::move(part));
}

std::shared_ptr<Backend> RecordingBackend::for_thread(bool is_for_any_thread) {
  return std::make_shared<RecordingBackend>(inner().for_thread(is_for_any_thread), log_, group_);
}

void RecordingBackend::run_collective(const Call& call) {
  if (!call.algorithm.empty()) return Backend::run_collective(call);  // which uses exchange
  const Log::Id id = log_->begin_collective(group_, world_rank());
  inner().run_collective(call);
  log_->end(id);
}

}  // namespace adjoin::lab
