#pragma once

#include <chrono>
#include <memory>

#include "adjoin/comm/host/group_world.hpp"
#include "adjoin/comm/host/host_backend.hpp"
#include "python/caller.hpp"

namespace adjoin::c10d_backend {

/// This process as a member of a group, for one call at a time.
class Member final : public HostBackend {
 public:
  Member(std::shared_ptr<host::Group> group, int rank)
      : HostBackend(group, rank), group_(std::move(group)), waiter_(world(), rank, &python::find_caller) {}

  host::GroupWorld& world() const { return static_cast<host::GroupWorld&>(group_->world()); }
  void set_timeout(std::chrono::milliseconds timeout) { waiter_.set_timeout(timeout); }
  std::chrono::milliseconds timeout() const { return waiter_.timeout(); }
  /// Waits for what happens elsewhere, as for a call.
  void await(host::Parking& parking, const host::Waiting& waiting) {
    waiter_.sleep(parking, waiting);
    if (!waiting.is_over()) world().throw_aborted();
  }

  using HostBackend::begin_messages;
  using HostBackend::PostedMessages;
  std::shared_ptr<Backend> subset(std::span<const int>, const Call&) override { return nullptr; }
  void abort(std::string_view reason) noexcept override { world().end(std::string(reason)); }

 private:
  host::Waiter& waiter() override { return waiter_; }

  const std::shared_ptr<host::Group> group_;
  host::GroupWaiter waiter_;
};

}  // namespace adjoin::c10d_backend
