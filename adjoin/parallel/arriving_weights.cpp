#include "adjoin/parallel/arriving_weights.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"

namespace adjoin::parallel {
ArrivingWeights::ArrivingWeights(const std::vector<at::Tensor>& weights, const std::vector<const Bucket*>& messages,
                                 bool marks) {
  std::map<std::vector<int>, Communicator> groups;  // by their ranks in the world
  for (const Bucket* bucket : messages) {
    const Communicator& copies = bucket->copies();
    const std::vector<int> ranks(copies.world_ranks().begin(), copies.world_ranks().end());
    if (!groups.contains(ranks)) groups.emplace(ranks, own_group(copies));
    for (const size_t i : bucket->members())
      if (marks) marks_.push_back(std::make_unique<Mark>(weights[i], *this, messages_.size()));
    messages_.push_back({bucket, groups.at(ranks)});
  }
}

void ArrivingWeights::begin(const Bucket& bucket, const at::Tensor& mine, const at::Tensor& packed,
                            const std::vector<at::Tensor>& weights) {
  Message& message = *std::ranges::find(messages_, &bucket, &Message::bucket);
  message.mine = mine;
  message.packed = packed;
  message.weights = weights;
  message.runs = message.group.begin().all_gather(buffer(mine), buffer(packed), bucket.sizes());
}

void ArrivingWeights::finish(size_t number) {
  Message& message = messages_[number];
  const std::shared_ptr<Pending> runs = message.runs;
  if (!runs) return;
  runs->wait();
  if (message.runs != runs) return;  // meanwhile the other half of a micro-batch has waited for it too (Turns)
  message.bucket->unpack(message.packed, message.weights);
  message = {message.bucket, message.group};
}

void ArrivingWeights::finish() {
  for (size_t message = 0; message < messages_.size(); ++message) finish(message);
}

}  // namespace adjoin::parallel
