#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "adjoin/comm/backend.hpp"
#include "adjoin/comm/communicator.hpp"

namespace adjoin::testing {

/// What a rank has made through its HostsBackends.
struct Made {
  std::atomic<int> groups = 0, threads = 0;
  bool operator==(const std::pair<int, int>& counts) const {
    return counts == std::pair(groups.load(), threads.load());
  }
};

/// Another backend that says that its ranks are on several hosts, and counts the groups and threads that are made of it.
class HostsBackend final : public Backend {
 public:
  HostsBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Made> made)
      : inner_(std::move(inner)), made_(std::move(made)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void exchange(std::span<const Message> messages, const Call& call) override { inner_->exchange(messages, call); }
  std::unique_ptr<Sending> begin_send(const Message& message, const Call& call) override {
    return inner_->begin_send(message, call);
  }
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override {
    ++made_->groups;
    return std::make_shared<HostsBackend>(inner_->subset(ranks, call), made_);
  }
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  void carry_out(const Call& call) override { inner_->carry_out(call); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override {
    ++made_->threads;
    return std::make_shared<HostsBackend>(inner_->for_thread(is_for_any_thread), made_);
  }
  ThreadOwner* owner() override { return inner_->owner(); }
  void rest(bool rests) noexcept override { inner_->rest(rests); }
  bool fail(std::exception_ptr cause) noexcept override { return inner_->fail(cause); }
  bool spans_hosts() const override { return true; }
  bool is_checked() const override { return inner_->is_checked(); }
  bool reduces_in_rank_order() const override { return inner_->reduces_in_rank_order(); }

 private:
  const std::shared_ptr<Backend> inner_;
  const std::shared_ptr<Made> made_;
};

/// The group as if its ranks were on several hosts.
inline Communicator between_hosts(const Communicator& group, std::shared_ptr<Made> made = std::make_shared<Made>()) {
  return group.carried_by(std::make_shared<HostsBackend>(group.backend(), std::move(made)));
}

}  // namespace adjoin::testing
