#include "adjoin/lab/recording_backend.hpp"

#include <utility>

namespace adjoin::lab {

RecordingBackend::RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Log> log, RecordedGroup group)
    : inner_(std::move(inner)), log_(std::move(log)), group_(std::move(group)) {}

void RecordingBackend::exchange(std::span<const Message> messages) {
  const Log::Id id = log_->begin_exchange(group_, world_rank(), messages);
  inner_->exchange(messages);
  log_->end(id);
}

std::shared_ptr<Backend> RecordingBackend::subset(std::span<const int> ranks) {
  RecordedGroup part;
  for (const int rank : ranks) part.members.push_back(group_.members[static_cast<size_t>(rank)]);
  part.name = log_->name_subset(group_, world_rank(), part.members);
  return std::make_shared<RecordingBackend>(inner_->subset(ranks), log_, std::move(part));
}

std::shared_ptr<Backend> RecordingBackend::for_thread(bool is_for_any_thread) {
  return std::make_shared<RecordingBackend>(inner_->for_thread(is_for_any_thread), log_, group_);
}

template <class Call>
void RecordingBackend::collective(const Call& call) {
  const Log::Id id = log_->begin_collective(group_, world_rank());
  call(*inner_);
  log_->end(id);
}

void RecordingBackend::barrier() {
  collective([](Backend& inner) { inner.barrier(); });
}

void RecordingBackend::broadcast(Buffer buffer, int root) {
  collective([&](Backend& inner) { inner.broadcast(buffer, root); });
}

void RecordingBackend::reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) {
  collective([&](Backend& inner) { inner.reduce(in, out, reduction, root); });
}

void RecordingBackend::all_reduce(Buffer buffer, Reduction reduction) {
  collective([&](Backend& inner) { inner.all_reduce(buffer, reduction); });
}

void RecordingBackend::gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  collective([&](Backend& inner) { inner.gather(in, out, counts, root); });
}

void RecordingBackend::scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) {
  collective([&](Backend& inner) { inner.scatter(in, out, counts, root); });
}

void RecordingBackend::all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) {
  collective([&](Backend& inner) { inner.all_gather(in, out, counts); });
}

void RecordingBackend::reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts,
                                      Reduction reduction) {
  collective([&](Backend& inner) { inner.reduce_scatter(in, out, counts, reduction); });
}

void RecordingBackend::all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                                  std::span<const int64_t> receive_counts) {
  collective([&](Backend& inner) { inner.all_to_all(in, send_counts, out, receive_counts); });
}

}  // namespace adjoin::lab
