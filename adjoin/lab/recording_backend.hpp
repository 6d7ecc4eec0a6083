#pragma once

#include <memory>

#include "adjoin/comm/backend.hpp"
#include "adjoin/lab/log.hpp"

namespace adjoin::lab {

/// Another backend whose exchanges are written to a log. Its collectives are those of the other backend, which sends
/// them as it likes: of them the log learns only that they were called.
class RecordingBackend final : public Backend {
 public:
  RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Log> log, RecordedGroup group);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void exchange(std::span<const Message> messages, const Call& call) override;
  std::unique_ptr<Sending> begin_send(const Message& message, const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void carry_out(const Call& call) override;
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;
  ThreadOwner* owner() override { return inner_->owner(); }
  void rest(bool rests) noexcept override { inner_->rest(rests); }
  bool fail(std::exception_ptr cause) noexcept override { return inner_->fail(cause); }
  bool spans_hosts() const override { return inner_->spans_hosts(); }
  bool is_checked() const override { return inner_->is_checked(); }
  bool reduces_in_rank_order() const override { return inner_->reduces_in_rank_order(); }

 private:
  int world_rank() const { return group_.members[static_cast<size_t>(rank())]; }

  const std::shared_ptr<Backend> inner_;
  const std::shared_ptr<Log> log_;
  const RecordedGroup group_;
};

}  // namespace adjoin::lab
