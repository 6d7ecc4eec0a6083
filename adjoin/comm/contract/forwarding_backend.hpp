#pragma once

#include <memory>
#include <utility>

#include "adjoin/comm/contract/backend.hpp"

namespace adjoin {

/// A backend that forwards every call to another one. A class that adds something to some calls derives from it and overrides
/// those. It must define subset and for_thread itself, so that the groups they make do the same.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void exchange(std::span<const Message> messages, const Call& call) override { inner_->exchange(messages, call); }
  std::unique_ptr<Pending> begin(const Call& call) override { return inner_->begin(call); }
  void run_collective(const Call& call) override { inner_->run_collective(call); }
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override = 0;
  ThreadOwner* owner() override { return inner_->owner(); }
  void rest(bool rests) noexcept override { inner_->rest(rests); }
  bool fail(std::exception_ptr cause) noexcept override { return inner_->fail(cause); }
  bool takes_devices(const Call& call) const override { return inner_->takes_devices(call); }
  bool spans_hosts() const override { return inner_->spans_hosts(); }
  bool overlaps() const override { return inner_->overlaps(); }
  bool is_checked() const override { return inner_->is_checked(); }
  bool reduces_in_rank_order() const override { return inner_->reduces_in_rank_order(); }

 protected:
  Backend& inner() { return *inner_; }

 private:
  const std::shared_ptr<Backend> inner_;
};

}  // namespace adjoin
