#pragma once

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "adjoin/comm/backend.hpp"
#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing {

/// Another backend whose transfers take so much longer.
class SlowBackend final : public Backend {
 public:
  SlowBackend(std::shared_ptr<Backend> inner, std::chrono::milliseconds delay)
      : inner_(std::move(inner)), delay_(delay) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void exchange(std::span<const Message> messages, const Call& call) override {
    std::this_thread::sleep_for(delay_);
    inner_->exchange(messages, call);
  }
  void carry_out(const Call& call) override {
    std::this_thread::sleep_for(delay_);
    inner_->carry_out(call);
  }
  std::unique_ptr<Sending> begin_send(const Message& message, const Call& call) override {
    std::this_thread::sleep_for(delay_);
    return inner_->begin_send(message, call);
  }
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override {
    return std::make_shared<SlowBackend>(inner_->subset(ranks, call), delay_);
  }
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override {
    return std::make_shared<SlowBackend>(inner_->for_thread(is_for_any_thread), delay_);
  }
  ThreadOwner* owner() override { return inner_->owner(); }
  void rest(bool rests) noexcept override { inner_->rest(rests); }
  bool fail(std::exception_ptr cause) noexcept override { return inner_->fail(cause); }
  bool spans_hosts() const override { return inner_->spans_hosts(); }
  bool is_checked() const override { return inner_->is_checked(); }
  bool reduces_in_rank_order() const override { return inner_->reduces_in_rank_order(); }

 private:
  const std::shared_ptr<Backend> inner_;
  const std::chrono::milliseconds delay_;
};

/// The group with each transfer taking so much longer.
inline Communicator slowed_by(const Communicator& group, std::chrono::milliseconds delay) {
  return group.carried_by(std::make_shared<SlowBackend>(group.backend(), delay));
}

}  // namespace adjoin::testing
