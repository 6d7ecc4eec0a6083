#pragma once

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/forwarding_backend.hpp"

namespace adjoin::testing {

/// Another backend whose transfers take so much longer.
class SlowBackend final : public ForwardingBackend {
 public:
  SlowBackend(std::shared_ptr<Backend> inner, std::chrono::milliseconds delay)
      : ForwardingBackend(std::move(inner)), delay_(delay) {}

  void exchange(std::span<const Message> messages, const Call& call) override {
    std::this_thread::sleep_for(delay_);
    inner().exchange(messages, call);
  }
  void run_collective(const Call& call) override {
    std::this_thread::sleep_for(delay_);
    inner().run_collective(call);
  }
  std::unique_ptr<Pending> begin(const Call& call) override {
    if (!call.only_sends()) return nullptr;
    std::this_thread::sleep_for(delay_);
    return inner().begin(call);
  }
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override {
    return std::make_shared<SlowBackend>(inner().subset(ranks, call), delay_);
  }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override {
    return std::make_shared<SlowBackend>(inner().for_thread(is_for_any_thread), delay_);
  }

 private:
  const std::chrono::milliseconds delay_;
};

/// The group with each transfer taking so much longer.
inline Communicator slowed_by(const Communicator& group, std::chrono::milliseconds delay) {
  return group.carried_by(std::make_shared<SlowBackend>(group.backend(), delay));
}

}  // namespace adjoin::testing
