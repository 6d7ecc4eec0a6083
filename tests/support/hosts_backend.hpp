#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/forwarding_backend.hpp"

namespace adjoin::testing {

/// What a rank has made through its HostsBackends.
struct Made {
  std::atomic<int> groups = 0, threads = 0;
  bool operator==(const std::pair<int, int>& counts) const {
    return counts == std::pair(groups.load(), threads.load());
  }
};

/// Another backend that says that each of its ranks is on a host of its own, and counts the groups and threads that are made of it.
class HostsBackend final : public ForwardingBackend {
 public:
  HostsBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Made> made)
      : ForwardingBackend(std::move(inner)), made_(std::move(made)) {}

  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override {
    ++made_->groups;
    return std::make_shared<HostsBackend>(inner().subset(ranks, call), made_);
  }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override {
    ++made_->threads;
    return std::make_shared<HostsBackend>(inner().for_thread(is_for_any_thread), made_);
  }
  bool spans_hosts() const override { return true; }
  bool overlaps() const override { return true; }

 private:
  const std::shared_ptr<Made> made_;
};

/// The group as if its ranks were on several hosts.
inline Communicator between_hosts(const Communicator& group, std::shared_ptr<Made> made = std::make_shared<Made>()) {
  return group.carried_by(std::make_shared<HostsBackend>(group.backend(), std::move(made)));
}

}  // namespace adjoin::testing
