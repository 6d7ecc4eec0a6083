#pragma once

#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/backend.hpp"

namespace adjoin::testing {

/// A backend that has nothing of its own but exchange: its collectives are the algorithms in steps.
class StepsBackend final : public Backend {
 public:
  explicit StepsBackend(const Communicator& group) : group_(group) {}

  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void exchange(std::span<const Message> messages, const Call&) override {
    std::vector<Message> tagged(messages.begin(), messages.end());
    for (Message& message : tagged)
      if (message.tag == kCollectiveTag) message.tag = kMaxTag;  // Communicator lets users' tags through only
    group_.exchange(tagged);
  }
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call&) override {
    return std::make_shared<StepsBackend>(group_.subset(ranks));
  }
  bool is_checked() const override { return group_.checked(); }
  void abort(std::string_view reason) noexcept override { group_.abort(reason); }

 private:
  Communicator group_;
};

}  // namespace adjoin::testing
