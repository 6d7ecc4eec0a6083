#include "adjoin/parallel/arriving_weights.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::parallel {
namespace {

std::vector<int> ranks_of(const Communicator& group) {
  return {group.world_ranks().begin(), group.world_ranks().end()};
}

}  // namespace

ArrivingWeights::ArrivingWeights(const std::vector<at::Tensor>& weights, const std::vector<const Bucket*>& messages,
                                 bool marks) {
  for (const Bucket* bucket : messages) {
    const Communicator& copies = bucket->copies();
    std::vector<int> ranks = ranks_of(copies);
    if (!groups_.contains(ranks)) groups_.emplace(std::move(ranks), copies.subset(all_ranks(copies.size())));
    for (const size_t i : bucket->members())
      if (marks) marks_.push_back(std::make_unique<Mark>(weights[i], *this, messages_.size()));
    messages_.push_back({bucket});
  }
}

void ArrivingWeights::begin(const Bucket& bucket, const at::Tensor& mine, const at::Tensor& packed,
                            const std::vector<at::Tensor>& weights) {
  Message& message = *std::ranges::find(messages_, &bucket, &Message::bucket);
  message.mine = mine;
  message.packed = packed;
  message.weights = weights;
  message.runs = groups_.at(ranks_of(bucket.copies())).begin().all_gather(buffer(mine), buffer(packed), bucket.sizes());
}

void ArrivingWeights::finish(size_t number) {
  Message& message = messages_[number];
  const std::shared_ptr<Pending> runs = message.runs;
  if (!runs) return;
  runs->wait();
  if (message.runs != runs) return;  // meanwhile the other half of a micro-batch has waited for it too (Turns)
  message.bucket->unpack(message.packed, message.weights);
  message = {message.bucket};
}

void ArrivingWeights::finish() {
  for (size_t message = 0; message < messages_.size(); ++message) finish(message);
}

}  // namespace adjoin::parallel
